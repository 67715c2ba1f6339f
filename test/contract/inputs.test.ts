import { test } from 'uvu';
import * as assert from 'uvu/assert';
import * as v from 'valibot';
import { check, checkKnown, checkWithoutNull } from '../../src/contract/check.ts';
import { lifecycleInput, parseRunInput } from '../../src/contract/inputs.ts';
import { object, withEarlyAbort } from '../../src/contract/vocabulary.ts';
import { SvcError } from '../../src/errors.ts';
import { defaultLimits } from '../../src/limits.ts';

function refusal(value: unknown, limits = defaultLimits): SvcError {
  try {
    parseRunInput(value, limits);
  } catch (thrown) {
    if (thrown instanceof SvcError) return thrown;
    throw thrown;
  }
  throw new Error(`accepted: ${JSON.stringify(value)}`);
}

test('every field keeps its value', () => {
  const whole = {
    prompt: 'a',
    system: 'b',
    provider: 'c',
    model: 'd/e',
    cloud: true,
    max_tokens: 1,
    temperature: 2,
    seed: 4294967295,
    timeout_ms: 1,
    idempotency_key: 'k',
  };
  assert.equal(parseRunInput(whole, defaultLimits), whole);
});

test('a field that is null counts as not given', () => {
  const nulls = {
    system: null,
    provider: null,
    model: null,
    cloud: null,
    max_tokens: null,
    temperature: null,
    seed: null,
    timeout_ms: null,
    idempotency_key: null,
  };
  assert.equal(parseRunInput({ prompt: 'a', ...nulls }, defaultLimits), { prompt: 'a' });
});

test('a value that is not an object is refused', () => {
  for (const value of [null, undefined, [], 'a', 1, true])
    assert.is(refusal(value).code, 'invalid_request');
});

test('a field with a wrong type or out of range is refused by its name', () => {
  const cases: Record<string, unknown[]> = {
    prompt: [1, {}, ['a']],
    system: [1, false],
    provider: ['', 1, 'a\nb', 'x'.repeat(1025), '\ud800'],
    model: ['', {}, 'a\u0000'],
    cloud: ['true', 0],
    max_tokens: [0, -1, 1.5, '1'],
    temperature: [-0.1, 2.1, '1'],
    seed: [-1, 0.5, 2 ** 32, 'x'],
    timeout_ms: [0, 1.5, -1, 86_400_001, '1'],
    idempotency_key: ['', ' ', 'a b', 'x'.repeat(256), 'é', 1],
  };
  const { max_tokens } = parseRunInput({ prompt: 'a', max_tokens: 1e12 }, defaultLimits);
  assert.is(max_tokens, 1_048_576, 'no context has room for more');
  for (const [param, values] of Object.entries(cases)) {
    for (const value of values) {
      const error = refusal({ prompt: 'a', [param]: value });
      assert.is(error.code, 'invalid_request', `${param} ${JSON.stringify(value)}`);
      assert.is(error.param, param);
    }
  }
});

test('an unknown field is refused by its name, even one that would reach the prototype', () => {
  for (const name of ['promt', 'run_id', 'constructor'])
    assert.is(refusal({ prompt: 'a', [name]: 1 }).param, name);
  assert.is(refusal(JSON.parse('{"prompt":"a","__proto__":{"cloud":true}}')).param, '__proto__');
});

test('of two forms that fit equally far, the one with an unknown field is reported', () => {
  const missing = object({ name: v.string(), size: v.number() });
  const unknown = object({ other: v.optional(v.string()) });
  for (const forms of [
    [missing, unknown],
    [unknown, missing],
  ]) {
    const schema = object({ part: v.union(forms) });
    const problem = (value: object) => {
      try {
        check(schema, value);
      } catch (error) {
        const { param, details } = error as SvcError;
        return [param, details?.unknown];
      }
      return null;
    };
    assert.equal(problem({ part: { size: 1 } }), ['part.size', 'field']);
    assert.is(problem({ part: { other: '' } }), null);
  }
});

test('a prompt that is missing, empty or blank is prompt_missing', () => {
  for (const value of [{}, { prompt: null }, { prompt: '' }, { prompt: ' \n\t' }])
    assert.is(refusal(value).code, 'prompt_missing');
});

test('NUL and half a surrogate pair are not text', () => {
  for (const text of ['a\0b', '\ud800', 'x\udc00y']) {
    assert.is(refusal({ prompt: text }).code, 'prompt_not_text');
    assert.is(refusal({ prompt: 'a', system: text }).param, 'system');
  }
});

test('prompt and system text share one bound, counted in bytes', () => {
  const limits = { ...defaultLimits, prompt_bytes: 6 };
  assert.is(parseRunInput({ prompt: 'ééé' }, limits).prompt, 'ééé');
  assert.is(refusal({ prompt: 'éééé' }, limits).code, 'prompt_too_large');
  assert.is(refusal({ prompt: 'aaaa', system: 'bbb' }, limits).code, 'prompt_too_large');
});

test('a lifecycle event needs a type and takes a mode and a time', () => {
  assert.equal(checkWithoutNull(lifecycleInput, { type: 'stop_requested' }), {
    type: 'stop_requested',
  });
  assert.equal(checkWithoutNull(lifecycleInput, { type: 'x', mode: 'force', timeout_ms: 0 }), {
    type: 'x',
    mode: 'force',
    timeout_ms: 0,
  });
  const wrong: [unknown, string | null][] = [
    [{}, 'type'],
    [{ type: 1 }, 'type'],
    [{ type: 'x', mode: 'hard' }, 'mode'],
    [{ type: 'x', timeout_ms: -1 }, 'timeout_ms'],
    [{ type: 'x', at: 1 }, 'at'],
    [[], null],
  ];
  for (const [value, param] of wrong) {
    assert.throws(
      () => checkWithoutNull(lifecycleInput, value),
      (error: SvcError) => error.code === 'invalid_request' && error.param === param,
    );
  }
});

test('a field is left out only if the form that fits does not know it', () => {
  const [a, b] = ['a', 'b'].map((own) => object({ type: v.literal(own), [own]: v.string() }));
  assert.ok(a !== undefined && b !== undefined);
  const either = object({ item: v.union([a, b]) });
  const ignored = (item: object) => checkKnown(either, { item }, { blanks: false }).ignored;
  assert.equal(ignored({ type: 'b', b: 'x' }), []);
  assert.equal(ignored({ type: 'b', b: 'x', c: 1 }), ['item.c']);
});

test('a list that may have a million parts is read up to its first mistake', () => {
  let read = 0;
  const part = v.custom<number>(() => {
    read += 1;
    return false;
  }, 'must be another.');
  const list = object({ input: withEarlyAbort(v.union([v.array(part), v.array(part)])) });
  const input = Array.from({ length: 5000 }, () => 1);
  assert.throws(() => check(list, { input }), 'input.0 must be another.');
  assert.is(read, 2);
});

test.run();
