package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// timedSelector is one line of the file of --selectors: an expression and the device it is asked about.
type timedSelector struct {
	Expression string             `json:"expression"`
	Driver     string             `json:"driver"`
	Device     resourceapi.Device `json:"device"`
	Compile    int                `json:"compile"`
	Evaluate   int                `json:"evaluate"`
}

type selectorTimes struct {
	Matches    bool    `json:"matches"`
	CompileUS  float64 `json:"compile_us"`
	EvaluateUS float64 `json:"evaluate_us"`
}

// timeSelectors prints, per selector, how long compiling and evaluating takes as the allocator does it: the shortest of five rounds.
func timeSelectors(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var all []timedSelector
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	out := []selectorTimes{}
	for _, each := range all {
		times, err := timeSelector(each)
		if err != nil {
			return fmt.Errorf("%s: %w", each.Expression, err)
		}
		out = append(out, times)
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func timeSelector(selector timedSelector) (selectorTimes, error) {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	options := cel.Options{DisableCostEstimation: true} // as the allocator's cache compiles
	compiled := compiler.CompileCELExpression(selector.Expression, options)
	if compiled.Error != nil {
		return selectorTimes{}, compiled.Error
	}
	device := cel.Device{
		Driver:                   selector.Driver,
		AllowMultipleAllocations: selector.Device.AllowMultipleAllocations,
		Attributes:               selector.Device.Attributes,
		Capacity:                 selector.Device.Capacity,
	}
	ctx := context.Background()
	matches, _, err := compiled.DeviceMatches(ctx, device)
	if err != nil {
		return selectorTimes{}, err
	}
	return selectorTimes{
		Matches:    matches,
		CompileUS:  best(selector.Compile, func() { compiler.CompileCELExpression(selector.Expression, options) }),
		EvaluateUS: best(selector.Evaluate, func() { _, _, _ = compiled.DeviceMatches(ctx, device) }),
	}, nil
}

// best is the mean of the shortest of five rounds, in microseconds.
func best(times int, work func()) float64 {
	shortest := time.Duration(0)
	for round := range 5 {
		start := time.Now()
		for range times {
			work()
		}
		if took := time.Since(start); round == 0 || took < shortest {
			shortest = took
		}
	}
	return float64(shortest.Nanoseconds()) / float64(times) / 1000
}
