// Command celref answers questions about CEL as Kubernetes' device selectors use it, one JSON object a line.
//
// In:  {"id", "expression", "mode": "selector" (default) | "language", "device": {"driver", "allowMultipleAllocations", "attributes", "capacity"}}
// Out: {"id", "compile_error", "type", "result", "error"}
//
// "selector" compiles and matches with the package's public API; "language" evaluates in the same environment without the rule
// on the result's type and writes the value as text. With the argument "declarations" it lists every overload instead.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/library"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type question struct {
	ID         any    `json:"id"`
	Expression string `json:"expression"`
	Mode       string `json:"mode"`
	Device     device `json:"device"`
}

type answer struct {
	ID           any    `json:"id"`
	CompileError string `json:"compile_error,omitempty"`
	Type         string `json:"type,omitempty"`
	Result       any    `json:"result,omitempty"`
	Error        string `json:"error,omitempty"`
}

var compiler = dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})

func render(v ref.Val) string {
	switch t := v.(type) {
	case types.Bool, types.Int:
		return fmt.Sprint(t.Value())
	case types.Uint:
		return fmt.Sprintf("%du", uint64(t))
	case types.Double:
		f := float64(t)
		switch {
		case math.IsNaN(f):
			return "double(NaN)"
		case math.IsInf(f, 1):
			return "double(+Inf)"
		case math.IsInf(f, -1):
			return "double(-Inf)"
		}
		return "double(" + fmt.Sprintf("%x", math.Float64bits(f)) + ")"
	case types.String:
		b, _ := json.Marshal(string(t))
		return string(b)
	case types.Bytes:
		return fmt.Sprintf("bytes(%x)", []byte(t))
	case types.Null:
		return "null"
	case types.Timestamp:
		return "timestamp(" + t.UTC().Format(time.RFC3339Nano) + ")"
	case types.Duration:
		return fmt.Sprintf("duration(%d)", t.Duration.Nanoseconds())
	case *types.Type:
		return "type(" + t.TypeName() + ")"
	case apiservercel.Format:
		for name, format := range library.ConstantFormats {
			if format.Name == t.Name {
				return "format(" + name + ")"
			}
		}
	case *types.Optional:
		if !t.HasValue() {
			return "optional.none"
		}
		return "optional(" + render(t.GetValue()) + ")"
	case traits.Mapper:
		var parts []string
		for it := t.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			parts = append(parts, render(k)+": "+render(t.Get(k)))
		}
		sort.Strings(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case traits.Lister:
		var parts []string
		for it := t.Iterator(); it.HasNext() == types.True; {
			parts = append(parts, render(it.Next()))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprintf("%s(%v)", v.Type().TypeName(), v.Value())
}

func reply(q question) (a answer) {
	a.ID = q.ID
	defer func() {
		if p := recover(); p != nil {
			a.Error = fmt.Sprintf("PANIC %v", p)
		}
	}()
	if q.Mode == "language" {
		env := compiler.CompileCELExpression("true", dracel.Options{}).Environment
		ast, issues := env.Compile(q.Expression)
		if issues != nil {
			a.CompileError = "compilation failed: " + issues.String()
			return a
		}
		a.Type = ast.OutputType().String()
		program, err := env.Program(ast)
		if err != nil {
			a.CompileError = "program instantiation failed: " + err.Error()
			a.Type = ""
			return a
		}
		value, _, err := program.Eval(map[string]any{})
		if err != nil {
			a.Error = err.Error()
			return a
		}
		a.Result = render(value)
		return a
	}
	compiled := compiler.CompileCELExpression(q.Expression, dracel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		a.CompileError = compiled.Error.Detail
		return a
	}
	a.Type = compiled.OutputType.String()
	d := dracel.Device{Driver: q.Device.Driver, AllowMultipleAllocations: q.Device.AllowMultipleAllocations, Attributes: q.Device.Attributes, Capacity: q.Device.Capacity}
	match, _, err := compiled.DeviceMatches(context.Background(), d)
	if err != nil {
		a.Error = dracel.EnhanceRuntimeError(err).Error()
		return a
	}
	a.Result = match
	return a
}

func declarations() {
	env := compiler.CompileCELExpression("true", dracel.Options{}).Environment
	var lines []string
	for name, f := range env.Functions() {
		for _, o := range f.OverloadDecls() {
			var args []string
			for _, t := range o.ArgTypes() {
				args = append(args, t.String())
			}
			kind := "global"
			if o.IsMemberFunction() {
				kind = "member"
			}
			lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t(%s) -> %s", kind, name, o.ID(), strings.Join(args, ", "), o.ResultType()))
		}
	}
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
	for _, m := range env.Macros() {
		fmt.Printf("macro\t%s\n", m.MacroKey())
	}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "declarations" {
		declarations()
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			_ = out.Encode(answer{Error: "BAD QUESTION " + err.Error()})
			continue
		}
		_ = out.Encode(reply(q))
	}
}
