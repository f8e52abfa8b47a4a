// Answers JSONPath templates as kubectl does. One JSON object per input line: {"template", "data"} or {"columns", "data"}
// with a template of -o jsonpath or a path of -o custom-columns; the answer adds "text" or "error". Go walks maps in
// random order: what differs between runs has "random": true. A panic of the package is the error "panic".
//
//	go run . < questions.jsonl > answers.jsonl
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

const runs = 12

func text(template string, data any) (answer string, problem error) {
	defer func() {
		if recover() != nil {
			problem = fmt.Errorf("panic")
		}
	}()
	path := jsonpath.New("out").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return "", err
	}
	out := bytes.NewBuffer(nil)
	err := path.Execute(out, data)
	return out.String(), err
}

// As k8s.io/kubectl/pkg/cmd/get/customcolumn.go, whose own function is private.
func cell(field string, data any) (answer string, problem error) {
	defer func() {
		if recover() != nil {
			problem = fmt.Errorf("panic")
		}
	}()
	path := jsonpath.New("column").AllowMissingKeys(true)
	if err := path.Parse(field); err != nil {
		return "", err
	}
	values, err := path.FindResults(data)
	if err != nil {
		return "", err
	}
	texts := []string{}
	if len(values) == 0 || len(values[0]) == 0 {
		texts = append(texts, "<none>")
	}
	for _, part := range values {
		for _, value := range part {
			texts = append(texts, fmt.Sprint(value.Interface()))
		}
	}
	return strings.Join(texts, ","), nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var question map[string]any
		if err := json.Unmarshal(lines.Bytes(), &question); err != nil {
			panic(err)
		}
		ask, template := text, question["template"]
		if template == nil {
			ask, template = cell, question["columns"]
		}
		answers := map[string]bool{}
		for range runs {
			answer, err := ask(template.(string), question["data"])
			if err != nil {
				question["error"] = err.Error()
				answers["error "+err.Error()] = true
			} else {
				question["text"] = answer
				answers["text "+answer] = true
			}
		}
		if len(answers) > 1 {
			question["random"] = true
		}
		out, err := json.Marshal(question)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(out))
	}
}
