// Answers what YAML means to Kubernetes (sigs.k8s.io/yaml). Reads JSON strings, one YAML document per line; writes per line
// {"yaml", "json"} or {"yaml", "error"}, and "strict" with the error that strict reading (duplicate keys) has.
//
//	go run . < ../../../tests/api/reading/yaml_inputs.jsonl > ../../../tests/api/reading/yaml_upstream.jsonl
package main

import (
	"bufio"
	"encoding/json"
	"os"

	"sigs.k8s.io/yaml"
)

type answer struct {
	YAML   string          `json:"yaml"`
	JSON   json.RawMessage `json:"json,omitempty"`
	Error  string          `json:"error,omitempty"`
	Strict string          `json:"strict,omitempty"`
}

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var result answer
		if err := json.Unmarshal(lines.Bytes(), &result.YAML); err != nil {
			panic(err)
		}
		value, err := yaml.YAMLToJSON([]byte(result.YAML))
		if err != nil {
			result.Error = err.Error()
		} else {
			result.JSON = value
			if _, err := yaml.YAMLToJSONStrict([]byte(result.YAML)); err != nil {
				result.Strict = err.Error()
			}
		}
		if err := out.Encode(result); err != nil {
			panic(err)
		}
	}
}
