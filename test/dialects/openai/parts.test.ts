import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { finishOf, usageOf } from '../../../src/dialects/openai/parts.ts';

test('a count that the provider does not say is zero where the API needs one', () => {
  assert.equal(usageOf({ input_tokens: 3, output_tokens: 2 }), {
    prompt_tokens: 3,
    completion_tokens: 2,
    total_tokens: 5,
    prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
  });
  assert.is(usageOf({ input_tokens: null, output_tokens: 2 }), undefined);
  assert.is(usageOf({ input_tokens: 3, output_tokens: null }), undefined);
});

test('an answer with calls ends with tool_calls, unless it was cut', () => {
  assert.is(finishOf('stop', 0), 'stop');
  assert.is(finishOf('other', 0), 'stop');
  assert.is(finishOf('stop', 1), 'tool_calls');
  assert.is(finishOf('length', 1), 'length');
});

test.run();
