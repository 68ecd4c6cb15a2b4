//! Finding numbers that JSON cannot hold in Rust values, which `serde_json` would write as null.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Serializer};

use super::{path_index, path_key};
use crate::error::Error;

/// Fails with the path of the first float that is NaN or infinite.
pub(crate) fn check_finite<T: Serialize + ?Sized>(value: &T) -> Result<(), Error> {
    value
        .serialize(Walk("$".to_owned()))
        .map_err(|Stop(path, why)| Error::not_json(path, why))
}

/// The place that is being looked at.
struct Walk(String);

/// The places inside a container.
struct Inside {
    path: String,
    index: usize,
    key: String,
}

impl Inside {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        let index = self.index;
        self.index += 1;
        value.serialize(Walk(path_index(&self.path, index)))
    }

    fn entry<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<(), Stop> {
        value.serialize(Walk(path_key(&self.path, key)))
    }
}

/// Where and why the walk ended.
#[derive(Debug)]
struct Stop(String, String);

impl fmt::Display for Stop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.0, self.1)
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self("$".to_owned(), message.to_string())
    }
}

macro_rules! plain {
    ($($method:ident($type:ty)),*) => {
        $(fn $method(self, _: $type) -> Result<(), Stop> { Ok(()) })*
    };
}

macro_rules! container {
    ($($method:ident($($argument:ty),*) -> $kind:ident),*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<Inside, Stop> { Ok(self.inside()) })*
    };
}

impl Walk {
    fn inside(self) -> Inside {
        Inside {
            path: self.0,
            index: 0,
            key: String::new(),
        }
    }

    fn float(self, value: f64) -> Result<(), Stop> {
        if value.is_finite() {
            Ok(())
        } else {
            Err(Stop(self.0, format!("{value} is not a JSON number")))
        }
    }
}

impl Serializer for Walk {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Inside;
    type SerializeTuple = Inside;
    type SerializeTupleStruct = Inside;
    type SerializeTupleVariant = Inside;
    type SerializeMap = Inside;
    type SerializeStruct = Inside;
    type SerializeStructVariant = Inside;

    plain!(
        serialize_bool(bool),
        serialize_i8(i8),
        serialize_i16(i16),
        serialize_i32(i32),
        serialize_i64(i64),
        serialize_i128(i128),
        serialize_u8(u8),
        serialize_u16(u16),
        serialize_u32(u32),
        serialize_u64(u64),
        serialize_u128(u128),
        serialize_char(char),
        serialize_str(&str),
        serialize_bytes(&[u8]),
        serialize_unit_struct(&'static str)
    );

    container!(serialize_seq(Option<usize>) -> Inside, serialize_tuple(usize) -> Inside,
        serialize_tuple_struct(&'static str, usize) -> Inside,
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Inside,
        serialize_map(Option<usize>) -> Inside, serialize_struct(&'static str, usize) -> Inside,
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Inside);

    fn serialize_f32(self, value: f32) -> Result<(), Stop> {
        self.float(value.into())
    }
    fn serialize_f64(self, value: f64) -> Result<(), Stop> {
        self.float(value)
    }
    fn serialize_none(self) -> Result<(), Stop> {
        Ok(())
    }
    fn serialize_unit(self) -> Result<(), Stop> {
        Ok(())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        value: &T,
    ) -> Result<(), Stop> {
        value.serialize(Walk(path_key(&self.0, name)))
    }
}

macro_rules! elements {
    ($($trait:ident::$method:ident),*) => {
        $(impl ser::$trait for Inside {
            type Ok = ();
            type Error = Stop;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
                self.element(value)
            }
            fn end(self) -> Result<(), Stop> {
                Ok(())
            }
        })*
    };
}

elements!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! fields {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Inside {
            type Ok = ();
            type Error = Stop;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), Stop> {
                self.entry(key, value)
            }
            fn end(self) -> Result<(), Stop> {
                Ok(())
            }
        })*
    };
}

fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Inside {
    type Ok = ();
    type Error = Stop;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Stop> {
        // A key that is no text fails where the value is made.
        self.key = serde_json::to_value(key).map_or_else(
            |_| String::new(),
            |key| match key {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            },
        );
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        self.entry(&self.key, value)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Reading {
        name: &'static str,
        values: Vec<f64>,
        more: std::collections::BTreeMap<&'static str, Option<f32>>,
    }

    #[test]
    fn pay_3_numbers_that_are_not_json_are_found() {
        let mut reading = Reading {
            name: "t",
            values: vec![1.0, 2.0],
            more: [("a", None), ("b", Some(0.5))].into(),
        };
        assert!(check_finite(&reading).is_ok());
        reading.more.insert("b", Some(f32::INFINITY));
        assert_eq!(
            check_finite(&reading).unwrap_err().field("path"),
            Some("$.more.b")
        );
        reading.values.push(f64::NAN);
        let error = check_finite(&reading).unwrap_err();
        assert_eq!(
            (error.code(), error.field("path")),
            (Some("not_json"), Some("$.values[2]"))
        );
        assert_eq!(reading.name, "t");
    }
}
