package actor

import (
	"encoding/json"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
)

// What travels between objects is copied: they share no memory. A body is a
// protobuf message if the type is one, and JSON otherwise.

func encode[T any](v T) ([]byte, error) {
	if m, ok := any(v).(proto.Message); ok {
		return proto.Marshal(m)
	}
	return json.Marshal(v)
}

func decode[T any](b []byte) (v T, err error) {
	if m, ok := any(v).(proto.Message); ok {
		t := reflect.TypeFor[T]()
		if t.Kind() != reflect.Pointer {
			return v, fmt.Errorf("%v is an interface; a method has to name the message's type", t)
		}
		m = m.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(b, m); err != nil {
			return v, err
		}
		return m.(T), nil
	}
	return v, json.Unmarshal(b, &v)
}
