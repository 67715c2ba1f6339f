package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sashabaranov/go-openai"
)

func clientWith(token string) *openai.Client {
	config := openai.DefaultConfig(token)
	config.BaseURL = svcURL + "/v1"
	return openai.NewClientWithConfig(config)
}

func chat(text string) openai.ChatCompletionRequest {
	said := openai.ChatCompletionMessage{Role: "user", Content: text}
	return openai.ChatCompletionRequest{Model: model, Messages: []openai.ChatCompletionMessage{said}}
}

func main() {
	ctx := context.Background()
	client := clientWith(token)
	attempt("chat", func() error {
		answer, err := client.CreateChatCompletion(ctx, chat("hello there"))
		if err != nil {
			return err
		}
		return expect([]any{answer.Choices[0].Message.Content, answer.Usage.CompletionTokens}, []any{"You said: hello there", 4})
	})
	attempt("chat, streamed", func() error {
		stream, err := client.CreateChatCompletionStream(ctx, chat("hello there"))
		if err != nil {
			return err
		}
		defer stream.Close()
		text := ""
		for {
			part, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return expect(text, "You said: hello there")
			}
			if err != nil {
				return err
			}
			for _, choice := range part.Choices {
				text += choice.Delta.Content
			}
		}
	})
	attempt("a tool call and its result", func() error {
		asked := chat("call weather")
		schema := map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}}
		function := openai.FunctionDefinition{Name: "weather", Parameters: schema}
		asked.Tools = []openai.Tool{{Type: "function", Function: &function}}
		first, err := client.CreateChatCompletion(ctx, asked)
		if err != nil {
			return err
		}
		message := first.Choices[0].Message
		result := openai.ChatCompletionMessage{Role: "tool", Content: "rain", ToolCallID: message.ToolCalls[0].ID}
		asked.Messages = append(asked.Messages, message, result)
		second, err := client.CreateChatCompletion(ctx, asked)
		if err != nil {
			return err
		}
		return expect(second.Choices[0].Message.Content, "The tool said: rain")
	})
	attempt("embeddings", func() error {
		asked := openai.EmbeddingRequest{Model: openai.EmbeddingModel(embedding), Input: []string{"a", "b"}}
		found, err := client.CreateEmbeddings(ctx, asked)
		if err != nil {
			return err
		}
		return expect([]any{len(found.Data), len(found.Data[1].Embedding)}, []any{2, 8})
	})
	attempt("models", func() error {
		list, err := client.ListModels(ctx)
		if err != nil {
			return err
		}
		for _, each := range list.Models {
			if each.ID == model {
				return nil
			}
		}
		return fmt.Errorf("%d models, and not %s", len(list.Models), model)
	})
	attempt("errors have their status", func() error {
		none := chat("x")
		none.Model = "up/none"
		for _, each := range []struct {
			client *openai.Client
			asked  openai.ChatCompletionRequest
			status int
		}{{client, none, 404}, {clientWith("wrong"), chat("x"), 401}} {
			_, err := each.client.CreateChatCompletion(ctx, each.asked)
			var failure *openai.APIError
			if !errors.As(err, &failure) {
				return fmt.Errorf("not an error of the API: %v", err)
			}
			if err := expect(failure.HTTPStatusCode, each.status); err != nil {
				return err
			}
		}
		return nil
	})
}
