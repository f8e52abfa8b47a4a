// Prints the fields of the resource.k8s.io types, as the Go API module of a Kubernetes release declares them:
//
//	{"ResourceClaimSpec": {"devices": "DeviceClaim"}, ...}      [T] is a list, {T} a map with string keys
//
// The result is kept in tests/api/fields-v0.37.2.json; tests/api/test_fields.py holds our types against it. To make it anew:
//
//	go run . > ../../../tests/api/fields-v0.37.2.json
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	v1 "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1alpha3"
)

// Types that are a single JSON value on the wire, or arbitrary JSON.
var opaque = map[string]bool{"Time": true, "MicroTime": true, "FieldsV1": true, "Quantity": true, "RawExtension": true}

type fields map[string]map[string]string

func (f fields) nameOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return f.nameOf(t.Elem())
	case reflect.Slice:
		return "[" + f.nameOf(t.Elem()) + "]"
	case reflect.Map:
		return "{" + f.nameOf(t.Elem()) + "}"
	case reflect.Struct:
		if !opaque[t.Name()] {
			f.add(t)
		}
		return t.Name()
	default:
		return t.Kind().String()
	}
}

func (f fields) add(t reflect.Type) {
	if _, known := f[t.Name()]; known {
		return
	}
	own := map[string]string{}
	f[t.Name()] = own
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && field.Anonymous:
			embedded := field.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			f.add(embedded)
			for inner, innerType := range f[embedded.Name()] {
				own[inner] = innerType
			}
			delete(f, embedded.Name())
		default:
			own[name] = f.nameOf(field.Type)
		}
	}
}

func main() {
	found := fields{}
	for _, kind := range []any{
		v1.ResourceSlice{}, v1.ResourceClaim{}, v1.ResourceClaimTemplate{}, v1.DeviceClass{}, v1.DeviceTaintRule{},
		v1alpha3.ResourcePoolStatusRequest{},
	} {
		found.add(reflect.TypeOf(kind))
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(found); err != nil {
		panic(err)
	}
}
