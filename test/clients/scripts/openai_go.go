package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

var place = map[string]any{
	"type":                 "object",
	"properties":           map[string]any{"city": map[string]any{"type": "string"}},
	"required":             []string{"city"},
	"additionalProperties": false,
}

func clientWith(token string) openai.Client {
	return openai.NewClient(option.WithBaseURL(svcURL+"/v1"), option.WithAPIKey(token), option.WithMaxRetries(0))
}

func chat(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func withTool(text string) openai.ChatCompletionNewParams {
	asked := chat(text)
	function := openai.FunctionDefinitionParam{Name: "weather", Parameters: place}
	asked.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(function)}
	return asked
}

func response(text string) responses.ResponseNewParams {
	input := responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}
	return responses.ResponseNewParams{Model: model, Input: input}
}

func streamed(client openai.Client, asked openai.ChatCompletionNewParams) (openai.ChatCompletionAccumulator, error) {
	asked.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(context.Background(), asked)
	defer stream.Close()
	whole := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			return whole, errors.New("a chunk does not fit")
		}
	}
	return whole, stream.Err()
}

func main() {
	ctx := context.Background()
	client := clientWith(token)
	attempt("chat", func() error {
		answer, err := client.Chat.Completions.New(ctx, chat("hello there"))
		if err != nil {
			return err
		}
		return expect([]any{answer.Choices[0].Message.Content, answer.Usage.CompletionTokens}, []any{"You said: hello there", 4})
	})
	attempt("chat, streamed with usage", func() error {
		whole, err := streamed(client, chat("hello there"))
		if err != nil {
			return err
		}
		return expect([]any{whole.Choices[0].Message.Content, whole.Usage.CompletionTokens}, []any{"You said: hello there", 4})
	})
	attempt("a stream that the client ends", func() error {
		ending, end := context.WithCancel(ctx)
		stream := client.Chat.Completions.NewStreaming(ending, chat("hello there"))
		stream.Next()
		end()
		for stream.Next() {
		}
		// The whole answer may have come by then.
		if err := stream.Err(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	attempt("a tool call and its result", func() error {
		asked := withTool("call weather")
		first, err := client.Chat.Completions.New(ctx, asked)
		if err != nil {
			return err
		}
		message := first.Choices[0].Message
		if err := expect(message.ToolCalls[0].Function.Arguments, `{"city":"Paris"}`); err != nil {
			return err
		}
		asked.Messages = append(asked.Messages, message.ToParam(), openai.ToolMessage("rain", message.ToolCalls[0].ID))
		second, err := client.Chat.Completions.New(ctx, asked)
		if err != nil {
			return err
		}
		return expect(second.Choices[0].Message.Content, "The tool said: rain")
	})
	attempt("two tool calls in a stream", func() error {
		whole, err := streamed(client, withTool("call weather twice"))
		if err != nil {
			return err
		}
		calls := whole.Choices[0].Message.ToolCalls
		return expect([]any{len(calls), calls[1].Function.Arguments}, []any{2, `{"city":"Paris"}`})
	})
	attempt("an answer of a schema", func() error {
		asked := chat("hello there")
		schema := openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "place", Schema: place, Strict: openai.Bool(true)}
		asked.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: schema}
		answer, err := client.Chat.Completions.New(ctx, asked)
		if err != nil {
			return err
		}
		return expect(answer.Choices[0].Message.Content, `{"city":"Paris"}`)
	})
	attempt("a response", func() error {
		answer, err := client.Responses.New(ctx, response("hello there"))
		if err != nil {
			return err
		}
		return expect(answer.OutputText(), "You said: hello there")
	})
	attempt("a response, streamed", func() error {
		stream := client.Responses.NewStreaming(ctx, response("hello there"))
		defer stream.Close()
		text, last := "", ""
		for stream.Next() {
			event := stream.Current()
			last = event.Type
			if event.Type == "response.output_text.delta" {
				text += event.Delta
			}
		}
		if err := stream.Err(); err != nil {
			return err
		}
		return expect([]any{text, last}, []any{"You said: hello there", "response.completed"})
	})
	attempt("a tool of a response", func() error {
		asked := response("call weather")
		asked.Tools = []responses.ToolUnionParam{responses.ToolParamOfFunction("weather", place, true)}
		first, err := client.Responses.New(ctx, asked)
		if err != nil {
			return err
		}
		call := first.Output[len(first.Output)-1].AsFunctionCall()
		asked.PreviousResponseID = openai.String(first.ID)
		result := responses.ResponseInputItemParamOfFunctionCallOutput("rain")
		result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
		asked.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{result}}
		second, err := client.Responses.New(ctx, asked)
		if err != nil {
			return err
		}
		return expect(second.OutputText(), "The tool said: rain")
	})
	attempt("embeddings", func() error {
		input := openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}
		found, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: embedding, Input: input})
		if err != nil {
			return err
		}
		return expect([]any{len(found.Data), len(found.Data[0].Embedding)}, []any{2, 8})
	})
	attempt("models", func() error {
		list, err := client.Models.List(ctx)
		if err != nil {
			return err
		}
		for _, each := range list.Data {
			if each.ID == model {
				return nil
			}
		}
		return fmt.Errorf("%d models, and not %s", len(list.Data), model)
	})
	attempt("errors have their status", func() error {
		none, wrong := chat("x"), chat("x")
		none.Model, wrong.Temperature = "up/none", openai.Float(9)
		for _, each := range []struct {
			client openai.Client
			asked  openai.ChatCompletionNewParams
			status int
		}{{client, none, 404}, {clientWith("wrong"), chat("x"), 401}, {client, wrong, 400}} {
			_, err := each.client.Chat.Completions.New(ctx, each.asked)
			var failure *openai.Error
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
