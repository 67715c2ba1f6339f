package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

func clientWith(token string) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(svcURL), option.WithAPIKey(token), option.WithMaxRetries(0))
}

func message(text string) anthropic.MessageNewParams {
	said := anthropic.NewUserMessage(anthropic.NewTextBlock(text))
	return anthropic.MessageNewParams{Model: anthropic.Model(model), MaxTokens: 2000, Messages: []anthropic.MessageParam{said}}
}

func withTool(text string) anthropic.MessageNewParams {
	asked := message(text)
	properties := map[string]any{"city": map[string]any{"type": "string"}}
	tool := anthropic.ToolParam{Name: "weather", InputSchema: anthropic.ToolInputSchemaParam{Properties: properties}}
	asked.Tools = []anthropic.ToolUnionParam{{OfTool: &tool}}
	return asked
}

func streamed(client anthropic.Client, asked anthropic.MessageNewParams) (anthropic.Message, error) {
	stream := client.Messages.NewStreaming(context.Background(), asked)
	defer stream.Close()
	whole := anthropic.Message{}
	for stream.Next() {
		if err := whole.Accumulate(stream.Current()); err != nil {
			return whole, err
		}
	}
	return whole, stream.Err()
}

func main() {
	ctx := context.Background()
	client := clientWith(token)
	attempt("a message", func() error {
		answer, err := client.Messages.New(ctx, message("hello there"))
		if err != nil {
			return err
		}
		return expect([]any{answer.Content[0].Text, answer.StopReason, answer.Usage.OutputTokens}, []any{"You said: hello there", "end_turn", 4})
	})
	attempt("a message, streamed", func() error {
		whole, err := streamed(client, message("hello there"))
		if err != nil {
			return err
		}
		return expect([]any{whole.Content[0].Text, whole.StopReason, whole.Usage.OutputTokens}, []any{"You said: hello there", "end_turn", 4})
	})
	attempt("thinking, streamed", func() error {
		asked := message("hello there")
		asked.Model = anthropic.Model(thinking)
		asked.Thinking = anthropic.ThinkingConfigParamOfEnabled(1024)
		whole, err := streamed(client, asked)
		if err != nil {
			return err
		}
		return expect([]any{whole.Content[0].Type, whole.Content[1].Text}, []any{"thinking", "You said: hello there"})
	})
	for _, way := range []string{"", ", streamed"} {
		attempt("a tool and its result"+way, func() error {
			asked := withTool("call weather")
			var first anthropic.Message
			if way == "" {
				answer, err := client.Messages.New(ctx, asked)
				if err != nil {
					return err
				}
				first = *answer
			} else {
				answer, err := streamed(client, asked)
				if err != nil {
					return err
				}
				first = answer
			}
			call := first.Content[0].AsToolUse()
			if err := expect([]any{call.Name, string(call.Input)}, []any{"weather", `{"city":"Paris"}`}); err != nil {
				return err
			}
			result := anthropic.NewUserMessage(anthropic.NewToolResultBlock(call.ID, "rain", false))
			asked.Messages = append(asked.Messages, first.ToParam(), result)
			second, err := client.Messages.New(ctx, asked)
			if err != nil {
				return err
			}
			return expect(second.Content[0].Text, "The tool said: rain")
		})
	}
	attempt("tokens are counted", func() error {
		asked := anthropic.MessageCountTokensParams{Model: "local/svc-mini", Messages: message("hello there").Messages}
		count, err := client.Messages.CountTokens(ctx, asked)
		if err != nil {
			return err
		}
		return expect(count.InputTokens > 0, true)
	})
	attempt("models", func() error {
		page := client.Models.ListAutoPaging(ctx, anthropic.ModelListParams{})
		for page.Next() {
			if page.Current().ID == model {
				return nil
			}
		}
		return fmt.Errorf("no %s: %v", model, page.Err())
	})
	attempt("errors have their status", func() error {
		none, wrong := message("x"), message("x")
		none.Model, wrong.Temperature = "up/none", anthropic.Float(9)
		for _, each := range []struct {
			client anthropic.Client
			asked  anthropic.MessageNewParams
			status int
		}{{client, none, 404}, {clientWith("wrong"), message("x"), 401}, {client, wrong, 400}} {
			_, err := each.client.Messages.New(ctx, each.asked)
			var failure *anthropic.Error
			if !errors.As(err, &failure) {
				return fmt.Errorf("not an error of the API: %v", err)
			}
			if err := expect(failure.StatusCode, each.status); err != nil {
				return err
			}
		}
		return nil
	})
}
