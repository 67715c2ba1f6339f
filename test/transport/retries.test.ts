import protobuf from 'protobufjs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errorOf as anthropicError } from '../../src/dialects/anthropic/messages.ts';
import { errorOf as ollamaError } from '../../src/dialects/ollama/errors.ts';
import { openaiError } from '../../src/dialects/openai/parts.ts';
import { type ErrorCode, errors, SvcError } from '../../src/errors.ts';
import { statusOf } from '../../src/grpc/status.ts';
import { type Envelope, httpError, rawHttpError } from '../../src/transport/http-error.ts';

/** What an answer says of asking again: `retryable`, the wait and `X-Should-Retry` agree. */

const ENVELOPES: Readonly<Record<string, Envelope | undefined>> = {
  svc: undefined,
  openai: openaiError,
  anthropic: anthropicError,
  ollama: ollamaError,
};
const { root } = protobuf.parse(
  `syntax = "proto3"; message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
  message Any { string type_url = 1; bytes value = 2; }`,
  { keepCase: true },
);

/** The names of the details of a status. */
function detailsOf(error: SvcError): string[] {
  const [bytes] = statusOf(error).metadata?.get('grpc-status-details-bin') ?? [];
  const decoded = root.lookupType('Status').decode(bytes as Buffer) as unknown as {
    details: { type_url: string }[];
  };
  return decoded.details.map(({ type_url }) => type_url.split('.').at(-1) ?? '');
}

for (const code of Object.keys(errors) as ErrorCode[])
  for (const [what, error] of [
    ['alone', new SvcError(code)],
    ['with a wait', new SvcError(code, undefined, { retryAfterMs: 5000 })],
    ['with a wait in its details', new SvcError(code, 'no', { details: { retry_after_ms: 5000 } })],
  ] as const)
    test(`${code} ${what} says one thing about asking again`, () => {
      const { retryable } = errors[code];
      const wait = !retryable ? undefined : what === 'alone' ? '1' : '5';
      for (const [api, envelope] of Object.entries(ENVELOPES)) {
        const { headers, body } = httpError(error, envelope);
        assert.is(headers['Retry-After'], wait, api);
        assert.is(headers['X-Should-Retry'], retryable ? undefined : 'false', api);
        const said = JSON.parse(body).error;
        if (said?.retryable !== undefined) assert.is(said.retryable, retryable, api);
        if (!retryable) assert.not.match(body, 'retry_after_ms');
      }
      assert.is(/\r\nRetry-After: /.test(rawHttpError(error)), retryable);
      assert.is(detailsOf(error).includes('RetryInfo'), retryable);
    });

test.run();
