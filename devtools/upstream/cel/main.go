// Command celref answers questions about CEL as Kubernetes' device selectors use it, one JSON object a line.
//
// In:  {"id", "expression", "device": {"driver", "allowMultipleAllocations", "attributes", "capacity"},
//
//	"features": {"consumable", "list"}, "new", "derived", "mode"}
//
// Out: {"id", "compile_error", "type", "cost_estimate", "result", "error", "cost"}
//
// It compiles with the package's public API: "new" with the environment of new expressions, else of stored ones; without "features" all
// are on. A selector's result is a bool, that of a "derived" attribute the attribute. With the "mode" "language" the expression is
// evaluated without a device and without the rule on the result's type, and the value is written as text. With the argument
// "declarations" it lists every overload instead, those of a function in the order in which the checker tries them.
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

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	resourceapi "k8s.io/api/resource/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type features struct {
	Consumable bool `json:"consumable"`
	List       bool `json:"list"`
}

type question struct {
	ID         any       `json:"id"`
	Expression string    `json:"expression"`
	Mode       string    `json:"mode"`
	Device     device    `json:"device"`
	Features   *features `json:"features"`
	New        bool      `json:"new"`
	Derived    bool      `json:"derived"`
}

type answer struct {
	ID           any     `json:"id"`
	CompileError string  `json:"compile_error,omitempty"`
	Type         string  `json:"type,omitempty"`
	CostEstimate *uint64 `json:"cost_estimate,omitempty"`
	Result       any     `json:"result,omitempty"`
	Error        string  `json:"error,omitempty"`
	Cost         *uint64 `json:"cost,omitempty"`
}

type compile func(expression string, options dracel.Options) dracel.CompilationResult

// The package keeps one compiler at a time, and making one takes long.
var compilers = map[features]compile{}

func compilerFor(f *features) compile {
	if f == nil {
		f = &features{Consumable: true, List: true}
	}
	if compilers[*f] == nil {
		compilers[*f] = dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: f.Consumable, EnableListTypeAttributes: f.List}).CompileCELExpression
	}
	return compilers[*f]
}

func (a *answer) spent(details *cel.EvalDetails) {
	if details != nil {
		a.Cost = details.ActualCost()
	}
}

// entries collects a map's entries as text. Looking each key up would not do: not-a-number isn't found.
type entries struct{ parts []string }

func (e *entries) FoldEntry(key, value any) bool {
	adapter := types.DefaultTypeAdapter
	e.parts = append(e.parts, render(adapter.NativeToValue(key))+": "+render(adapter.NativeToValue(value)))
	return true
}

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
		found := &entries{}
		types.ToFoldableMap(t).Fold(found)
		sort.Strings(found.parts)
		return "{" + strings.Join(found.parts, ", ") + "}"
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
	defer func() {
		if p := recover(); p != nil {
			a = answer{ID: q.ID, Error: fmt.Sprintf("PANIC %v", p)}
		}
	}()
	a.ID = q.ID
	envType := environment.StoredExpressions
	if q.New {
		envType = environment.NewExpressions
	}
	if q.Mode == "language" {
		language(q, envType, &a)
		return a
	}
	compiled := compilerFor(q.Features)(q.Expression, dracel.Options{EnvType: &envType, DerivedAttribute: q.Derived})
	if compiled.Error != nil {
		a.CompileError = compiled.Error.Detail
		return a
	}
	a.Type = compiled.OutputType.String()
	a.CostEstimate = &compiled.MaxCost
	d := dracel.Device{Driver: q.Device.Driver, AllowMultipleAllocations: q.Device.AllowMultipleAllocations, Attributes: q.Device.Attributes, Capacity: q.Device.Capacity}
	if q.Derived {
		value, details, err := compiled.EvaluateDerivedAttribute(context.Background(), d)
		a.spent(details)
		if err != nil {
			a.Error = dracel.EnhanceRuntimeError(err).Error()
		} else {
			a.Result = attribute(value)
		}
		return a
	}
	match, details, err := compiled.DeviceMatches(context.Background(), d)
	a.spent(details)
	if err != nil {
		a.Error = dracel.EnhanceRuntimeError(err).Error()
	} else {
		a.Result = match
	}
	return a
}

// attribute is the wire form of an attribute, but for empty lists, which would be left out.
func attribute(value *resourceapi.DeviceAttribute) any {
	if value.StringValues != nil && len(value.StringValues) == 0 {
		return map[string]any{"strings": []string{}}
	}
	return value
}

func language(q question, envType environment.Type, a *answer) {
	env := compilerFor(q.Features)("true", dracel.Options{EnvType: &envType}).Environment
	ast, issues := env.Compile(q.Expression)
	if issues != nil {
		a.CompileError = "compilation failed: " + issues.String()
		return
	}
	program, err := env.Program(ast, cel.CostLimit(resourceapi.CELSelectorExpressionMaxCost))
	if err != nil {
		a.CompileError = "program instantiation failed: " + err.Error()
		return
	}
	a.Type = ast.OutputType().String()
	estimate, err := env.EstimateCost(ast, &library.CostEstimator{})
	if err != nil {
		a.CompileError = "cost estimation failed: " + err.Error()
		return
	}
	a.CostEstimate = &estimate.Max
	value, details, err := program.Eval(map[string]any{})
	a.spent(details)
	if err != nil {
		a.Error = err.Error()
	} else {
		a.Result = render(value)
	}
}

func declarations() {
	env := compilerFor(nil)("true", dracel.Options{}).Environment
	functions := env.Functions()
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	sort.Strings(names)
	var lines []string
	for _, name := range names {
		for _, o := range functions[name].OverloadDecls() {
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
