package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// What the scripts share: each case prints its outcome as one line.
var (
	svcURL    = os.Getenv("SVC_URL")
	token     = os.Getenv("SVC_TOKEN")
	model     = os.Getenv("SVC_MODEL_ID")
	thinking  = os.Getenv("SVC_THINKING_ID")
	embedding = os.Getenv("SVC_EMBEDDING_ID")
)

func attempt(name string, work func() error) {
	err := work()
	why := ""
	if err != nil {
		why = err.Error()
	}
	line, _ := json.Marshal(map[string]any{"name": name, "ok": err == nil, "why": why})
	fmt.Println("CASE " + string(line))
}

func expect(seen any, wanted any) error {
	if fmt.Sprint(seen) != fmt.Sprint(wanted) {
		return fmt.Errorf("%v is not %v", seen, wanted)
	}
	return nil
}

func includes(text string, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("%q lacks %q", text, part)
	}
	return nil
}
