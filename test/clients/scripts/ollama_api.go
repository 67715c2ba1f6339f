package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"

	"github.com/ollama/ollama/api"
)

func main() {
	// The package sends no header of ours, so the token is in its address.
	base, _ := url.Parse(svcURL + "/t/" + token)
	client := api.NewClient(base, http.DefaultClient)
	ctx := context.Background()
	attempt("heartbeat", func() error { return client.Heartbeat(ctx) })
	attempt("version", func() error { _, err := client.Version(ctx); return err })
	attempt("list", func() error {
		list, err := client.List(ctx)
		if err != nil {
			return err
		}
		for _, each := range list.Models {
			if !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(each.Digest) {
				return fmt.Errorf("the digest of %s is %q", each.Name, each.Digest)
			}
		}
		return nil
	})
	attempt("show", func() error { _, err := client.Show(ctx, &api.ShowRequest{Model: model}); return err })
	attempt("chat", func() error {
		text := ""
		asked := &api.ChatRequest{Model: model, Messages: []api.Message{{Role: "user", Content: "hello there"}}}
		err := client.Chat(ctx, asked, func(part api.ChatResponse) error { text += part.Message.Content; return nil })
		if err != nil {
			return err
		}
		return includes(text, "You said: hello there")
	})
	attempt("generate", func() error {
		text := ""
		asked := &api.GenerateRequest{Model: model, Prompt: "hello there"}
		err := client.Generate(ctx, asked, func(part api.GenerateResponse) error { text += part.Response; return nil })
		if err != nil {
			return err
		}
		return includes(text, "You said: hello there")
	})
	attempt("embed", func() error {
		found, err := client.Embed(ctx, &api.EmbedRequest{Model: embedding, Input: []string{"a", "b"}})
		if err == nil && len(found.Embeddings) != 2 {
			return fmt.Errorf("%d vectors", len(found.Embeddings))
		}
		return err
	})
	attempt("running models", func() error { _, err := client.ListRunning(ctx); return err })
}
