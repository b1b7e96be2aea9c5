package actor

import (
	"encoding/json"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/proto"
)

// What travels between objects is copied: they share no memory. A body is a
// protobuf message if the type is one, and JSON otherwise.

// empty is the body of a struct{}: what has nothing to say is not encoded anew.
var empty = []byte("{}")

func encode[T any](v T) ([]byte, error) {
	if _, nothing := any(v).(struct{}); nothing {
		return empty, nil
	}
	if m, ok := any(v).(proto.Message); ok {
		return proto.Marshal(m)
	}
	return json.Marshal(v)
}

func decode[T any](b []byte) (v T, err error) {
	if _, nothing := any(v).(struct{}); nothing {
		return v, nil
	}
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
