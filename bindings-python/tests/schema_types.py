# SPDX-License-Identifier: Apache-2.0
"""Annotations and helpers that the tests of schemas share."""

import dataclasses
import enum
from datetime import date, datetime
from typing import (
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
)

import pytest
from callweir import _schema

pydantic = pytest.importorskip("pydantic")

T = TypeVar("T")
Number = TypeVar("Number", bound=int)
Choice = TypeVar("Choice", int, str)
Sku = NewType("Sku", str)


class ToolContext:
    """Stands for the door's class, which is found by its name."""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Item:
    """One line of an order.

    Args:
        sku: What is ordered.
    """

    sku: str
    when: datetime | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Node:
    value: int
    children: list["Node"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Box(Generic[T]):
    content: T
    more: "list[T] | None" = None


@dataclasses.dataclass
class Cat:
    kind: Literal["cat"]
    born: date


@dataclasses.dataclass
class Dog:
    kind: Literal["dog"]
    born: date


@dataclasses.dataclass
class Strict:
    amount: int

    def __post_init__(self):
        if self.amount < 0:
            raise ValueError("amount is negative")


@dataclasses.dataclass
class Awkward:
    path: str
    cls: str
    make: list[Color]


class Point(NamedTuple):
    x: int
    at: datetime
    label: str = "here"


class Movie(TypedDict, total=False):
    title: Required[str]
    year: int
    seen: date


class Book(TypedDict):
    title: str
    year: NotRequired[int]


class Address(pydantic.BaseModel):
    city: str
    since: date | None = None


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(alias="fullName")
    addresses: list[Address]


class Kept(pydantic.BaseModel):
    home: Address | Person
    checked: int = 0

    @pydantic.field_validator("checked")
    @classmethod
    def check(cls, value: int) -> int:
        if value < 0:
            raise RuntimeError("below zero")
        return value


class Tree(pydantic.BaseModel):
    left: Optional["Tree"] = None


def schema_of(annotation, **default):
    def tool(value):
        raise AssertionError("only described")

    tool.__annotations__["value"] = annotation
    if default:
        tool.__defaults__ = (default["default"],)
    return _schema.describe(tool).schema


def property_of(annotation, **default):
    return schema_of(annotation, **default)["properties"]["value"]


def convert(annotation, value):
    def tool(value):
        raise AssertionError("only described")

    tool.__annotations__["value"] = annotation
    return _schema.describe(tool).bind({"value": value}, None)["value"]


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NULL = {"type": "null"}
