import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ProviderConfig } from '../../src/config/providers/provider.ts';
import type { Asking } from './asking.ts';
import { outcome, remote } from './remote.ts';
import { type Exchange, Upstream } from './upstream.ts';

/** The answer of a scripted server, in short. A connection that stays open is left at once. */
export async function ask(
  config: Partial<ProviderConfig>,
  scenario: (x: Exchange) => unknown,
  request: Asking = {},
) {
  const upstream = await Upstream.start(scenario);
  const provider = remote(upstream.base_url, {
    config: { key: 'env:TEST_KEY', ...config },
    limits: { provider_usage_ms: 1, provider_end_ms: 1 },
  });
  try {
    const seen = await outcome(provider, { request: { seed_asked: false, ...request } });
    const parts = seen.parts.map((part) =>
      part.type === 'tool_call'
        ? `${part.name}(${part.arguments})`
        : `${part.type}: ${'text' in part ? part.text : ''}`,
    );
    const { failure, finish, text } = seen;
    const end = failure === null ? `${finish?.finish_reason}` : failure.code;
    return { ...seen, end, all: parts.length > 0 ? parts.join(', ') : text };
  } finally {
    await provider.close();
    await upstream.stop();
  }
}

/** Server-sent events. A text is sent as it is. */
export const data = (...values: unknown[]) =>
  values
    .map((value) => `data: ${typeof value === 'string' ? value : JSON.stringify(value)}\n\n`)
    .join('');

/** A form of an answer, its events, the parts of the answer, and how it ends. */
export type Form = [form: string, events: object[], all: string, end?: string];

/** Reads each form. `end`: the events that end an answer, with a call or without one. */
export function testForms(
  name: string,
  config: Partial<ProviderConfig>,
  end: (hasCall: boolean) => object[],
  forms: readonly Form[],
): void {
  for (const [form, events, all, ended = 'stop'] of forms)
    test(`${name}: is read: ${form}`, async () => {
      const seen = await ask(
        config,
        async (x) => {
          await x.open().write(data(...events, ...end(ended === 'tool_calls')));
          x.end();
        },
        LOOK,
      );
      assert.is(seen.end, ended, seen.failure?.message);
      assert.is(seen.all, all);
      if (seen.failure === null && ended !== 'length')
        assert.is(seen.finish?.usage.input_tokens, 3);
    });
}

const LOOK: Asking = {
  tools: [{ name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } }],
};
