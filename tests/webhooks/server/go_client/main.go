// Says whether a Kubernetes API server would accept certificates: Go's own verifier, asked as a TLS client asks it.
// Reads JSON lines {"roots": PEM, "leaf": PEM, "name": string}, answers a line each: "" or the error.
package main

import (
	"bufio"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
)

type question struct {
	Roots string
	Leaf  string
	Name  string
}

func verify(q question) error {
	roots, rest := x509.NewCertPool(), x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(q.Roots)) {
		return fmt.Errorf("no roots")
	}
	block, others := pem.Decode([]byte(q.Leaf))
	if block == nil {
		return fmt.Errorf("no leaf")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	rest.AppendCertsFromPEM(others)
	_, err = leaf.Verify(x509.VerifyOptions{DNSName: q.Name, Roots: roots, Intermediates: rest})
	return err
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q question
		answer := ""
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			answer = err.Error()
		} else if err := verify(q); err != nil {
			answer = err.Error()
		}
		line, _ := json.Marshal(answer)
		fmt.Println(string(line))
	}
}
