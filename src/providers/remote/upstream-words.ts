/**
 * What a provider says in words alone: its code is empty, or says less. Each row is one family of
 * servers. The patterns have no repetition that could take long.
 */
export const WORDS: readonly (readonly [means: 'too_long' | 'no_credit', pattern: RegExp])[] = [
  // OpenAI, Azure, vLLM, OpenRouter, Together, Mistral, Fireworks, sglang
  ['too_long', /maximum context length/i],
  ['too_long', /exceeds? the context (window|length|size)/i],
  ['too_long', /reduce the length of the (input|messages|prompt)/i],
  // vLLM
  ['too_long', /longer than the maximum model length/i],
  // sglang
  ['too_long', /longer than the model's context length/i],
  // Anthropic, also on Vertex and Bedrock
  ['too_long', /prompt is too long/i],
  ['too_long', /input length and `?max_tokens`? exceed context limit/i],
  // Bedrock
  ['too_long', /input is too long for (the )?requested model/i],
  ['too_long', /too many (input )?tokens: total number of tokens in the prompt/i],
  // Gemini
  ['too_long', /input token count .{0,40}exceeds the maximum number of tokens/i],
  // llama-server
  ['too_long', /exceeds the available context size/i],
  ['too_long', /input is too large to process/i],
  // Ollama
  ['too_long', /prompt too long; exceeded max context length/i],
  // LM Studio
  ['too_long', /loaded with context length of only/i],
  ['too_long', /greater than the context length/i],
  // Text Generation Inference
  ['too_long', /`?inputs`? tokens \+ `?max_new_tokens`? must be/i],
  // xAI, Copilot, Moonshot, GLM, MiniMax
  ['too_long', /maximum prompt length is/i],
  ['too_long', /prompt token count of \d+ exceeds the limit/i],
  ['too_long', /exceeded model token limit/i],
  ['too_long', /prompt exceeds max length/i],
  ['too_long', /context window exceeds limit/i],
  // Anthropic
  ['no_credit', /credit balance is too low/i],
  // xAI
  ['no_credit', /used all available credits/i],
  // DeepSeek, OpenRouter, and gateways
  ['no_credit', /insufficient (account )?(balance|credit|funds|quota)/i],
];

/** The meaning of a message. Null: its words are not known. */
export function meaningOf(message: string): 'too_long' | 'no_credit' | null {
  return WORDS.find(([, pattern]) => pattern.test(message))?.[0] ?? null;
}
