// Answers questions about proxies, a line of JSON each, with the package that kubectl uses.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
)

type question struct {
	Server  string `json:"server"`
	Proxy   string `json:"proxy"`
	NoProxy string `json:"noProxy"`
	Answer  string `json:"answer"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		server, err := url.Parse(asked.Server)
		if err != nil {
			panic(err)
		}
		config := httpproxy.Config{HTTPProxy: asked.Proxy, HTTPSProxy: asked.Proxy, NoProxy: asked.NoProxy}
		proxy, err := config.ProxyFunc()(server)
		if err != nil {
			panic(err)
		}
		if proxy != nil {
			asked.Answer = proxy.String()
		}
		written, err := json.Marshal(asked)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(written))
	}
}
