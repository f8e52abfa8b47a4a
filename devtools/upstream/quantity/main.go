// Answers quantities as Kubernetes does. One quantity per input line; one JSON object per output line:
// {"text", "error"} or {"text", "canonical", "format", "nano"}; nano is the exact value in nano-units.
// A line "A<TAB>op<TAB>B" with op in + - * answers with the result of the operation instead.
//
//	go run . < ../../../tests/api/quantity_inputs.txt > ../../../tests/api/quantity_upstream.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"math/big"
	"os"
	"strconv"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

func answer(line string) map[string]any {
	parts := strings.Split(line, "\t")
	q, err := resource.ParseQuantity(parts[0])
	if err != nil {
		return map[string]any{"text": line, "error": err.Error()}
	}
	if len(parts) == 3 {
		switch parts[1] {
		case "+":
			q.Add(resource.MustParse(parts[2]))
		case "-":
			q.Sub(resource.MustParse(parts[2]))
		case "*":
			n, err := strconv.ParseInt(parts[2], 10, 64)
			if err != nil {
				panic(err)
			}
			q.Mul(n)
		}
	}
	// Twice negated, a quantity forgets the spelling it was read from and prints its canonical form.
	q.Neg()
	q.Neg()
	result := map[string]any{"text": line, "canonical": q.String(), "format": string(q.Format)}
	nano := new(inf.Dec).Mul(q.AsDec(), inf.NewDec(1000000000, 0))
	nano.Round(nano, 0, inf.RoundExact)
	result["nano"] = new(big.Int).Set(nano.UnscaledBig()).String()
	return result
}

func main() {
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := out.Encode(answer(lines.Text())); err != nil {
			panic(err)
		}
	}
}
