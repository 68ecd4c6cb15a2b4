package callweir

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// ToolOption says more of a tool.
type ToolOption func(*Descriptor)

// ReadOnly says that the tool changes nothing.
func ReadOnly() ToolOption { return func(d *Descriptor) { d.ReadOnly = true } }

// Idempotent says that running the tool twice is as good as once.
func Idempotent() ToolOption { return func(d *Descriptor) { d.Idempotent = true } }

// NewTool makes a tool of a function over a struct; the JSON Schema comes from the struct.
//
// Names are those of encoding/json. A field is optional if it is a pointer or has omitempty or omitzero; the tag doc
// describes it. Arguments that do not fit In are ErrInvalidArgument.
func NewTool[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error),
	options ...ToolOption) (Tool, error) {
	schema, err := schemaOf(reflect.TypeFor[In](), nil)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %q: %w", name, err)
	}
	if schema["type"] != "object" {
		return Tool{}, fmt.Errorf("tool %q: its input is %v, not a struct or map", name, reflect.TypeFor[In]())
	}
	parameters, err := json.Marshal(schema)
	if err != nil {
		return Tool{}, err
	}
	tool := Tool{Descriptor: Descriptor{Name: name, Description: description, Parameters: parameters}}
	for _, option := range options {
		option(&tool.Descriptor)
	}
	tool.Run = func(ctx context.Context, args any) (any, error) {
		in, err := input[In](args)
		if err != nil {
			return nil, invalidInput(name, err)
		}
		return fn(ctx, in)
	}
	return tool, nil
}

// RegisterTool makes a tool as NewTool does, and adds it to a registry.
func RegisterTool[In, Out any](registry *ToolRegistry, name, description string,
	fn func(ctx context.Context, in In) (Out, error), options ...ToolOption) error {
	tool, err := NewTool(name, description, fn, options...)
	if err != nil {
		return err
	}
	return registry.Register(tool)
}

// input reads arguments as an In: themselves if they are one, else through JSON.
func input[In any](args any) (In, error) {
	if same, ok := args.(In); ok {
		return same, nil
	}
	var in In
	written, err := encode(args)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(written)).Decode(&in)
	}
	return in, err
}

// schemaOf returns the JSON Schema of a type; outer are the structs around it, which it may not contain again.
func schemaOf(of reflect.Type, outer []reflect.Type) (map[string]any, error) {
	switch of {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}, nil
	case reflect.TypeFor[json.RawMessage]():
		return map[string]any{}, nil
	}
	switch of.Kind() {
	case reflect.Pointer:
		return schemaOf(of.Elem(), outer)
	case reflect.String:
		return map[string]any{"type": "string"}, nil
	case reflect.Bool:
		return map[string]any{"type": "boolean"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}, nil
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}, nil
	case reflect.Interface:
		return map[string]any{}, nil
	case reflect.Slice, reflect.Array:
		if of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Uint8 {
			// encoding/json reads bytes from base64.
			return map[string]any{"type": "string", "contentEncoding": "base64"}, nil
		}
		items, err := schemaOf(of.Elem(), outer)
		return map[string]any{"type": "array", "items": items}, err
	case reflect.Map:
		values, err := schemaOf(of.Elem(), outer)
		return map[string]any{"type": "object", "additionalProperties": values}, err
	case reflect.Struct:
		return schemaOfStruct(of, outer)
	}
	return nil, fmt.Errorf("%v has no JSON form", of)
}

func schemaOfStruct(of reflect.Type, outer []reflect.Type) (map[string]any, error) {
	for _, around := range outer {
		if around == of {
			return nil, fmt.Errorf("%v contains itself", of)
		}
	}
	properties, required := map[string]any{}, []string{}
	for _, field := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" || field.Anonymous && name == "" || len(field.Index) > 1 && promoted(of, field) {
			continue
		}
		if name == "" {
			name = field.Name
		}
		schema, err := schemaOf(field.Type, append(outer, of))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if doc := field.Tag.Get("doc"); doc != "" {
			schema["description"] = doc
		}
		properties[name] = schema
		if field.Type.Kind() != reflect.Pointer && !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}, nil
}

// promoted says whether a field lies in an embedded struct that has a JSON name, and so is not one of the outer struct.
func promoted(of reflect.Type, field reflect.StructField) bool {
	for depth := 1; depth < len(field.Index); depth++ {
		name, _, _ := strings.Cut(of.FieldByIndex(field.Index[:depth]).Tag.Get("json"), ",")
		if name != "" {
			return true
		}
	}
	return false
}
