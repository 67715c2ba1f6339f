import { createKeys } from '../../src/config/keys/keys.ts';
import type { ProviderKeys } from '../../src/config/keys/port.ts';
import type { ProviderConfig } from '../../src/config/providers/provider.ts';
import {
  type OutputPart as AnswerPart,
  partsAfter,
  type RunRequest,
} from '../../src/contract/messages/parts.ts';
import { SvcError } from '../../src/errors.ts';
import { defaultLimits, type Limits } from '../../src/limits.ts';
import type { OutputPart, ProviderPort } from '../../src/ports/providers.ts';
import { createRemote } from '../../src/providers/adapters.ts';
import { type Asking, asking } from './asking.ts';
import { providerConfig } from './provider-config.ts';

/** Words that no message may repeat. */
export const SECRET_PROMPT =
  'The launch code of the Copenhagen project is 7734-tango, keep it to yourself.';
export const SECRET_KEY = 'sk-test-4f9a1c77e2b0d6538821';

export interface RemoteOptions {
  config?: Partial<ProviderConfig>;
  env?: NodeJS.ProcessEnv;
  limits?: Partial<Limits>;
  keys?: ProviderKeys;
}

export function remote(base_url: string, options: RemoteOptions = {}): ProviderPort {
  const { config = {}, env = { TEST_KEY: SECRET_KEY }, limits = {} } = options;
  return createRemote({
    id: 'test',
    config: providerConfig({ base_url, ...config }),
    env,
    keys: options.keys ?? createKeys(env),
    adapters: '/nonexistent/svc/adapters',
    limits: { ...defaultLimits, ...limits },
  });
}

export function runRequest(changes: Asking = {}): RunRequest {
  return asking({
    provider: 'test',
    model: 'm',
    cloud: false,
    prompt: SECRET_PROMPT,
    max_tokens: null,
    temperature: null,
    seed: 42,
    seed_asked: true,
    ...changes,
  });
}

export interface Outcome {
  text: string;
  /** All parts; empty for an answer that is only text. */
  parts: readonly AnswerPart[];
  finish: Extract<OutputPart, { type: 'finish' }> | null;
  failure: SvcError | null;
}

/** The outcome of one attempt. Rethrows any error that is not a SvcError. */
export async function outcome(
  provider: ProviderPort,
  options: { signal?: AbortSignal; request?: Asking; onText?: (text: string) => void } = {},
): Promise<Outcome> {
  const { signal = new AbortController().signal, request = {}, onText = () => undefined } = options;
  const seen: Outcome = { text: '', parts: [], finish: null, failure: null };
  try {
    for await (const part of provider.stream(
      { run_id: 'run_1', attempt: 1, request: runRequest(request), resume: null },
      signal,
    )) {
      if (part.type === 'output') seen.parts = partsAfter(seen.parts, seen.text, part);
      if (part.type === 'finish') seen.finish = part;
      else if (part.kind === undefined) seen.text += part.text;
      if (part.type === 'output') onText(part.text);
    }
  } catch (thrown) {
    if (!(thrown instanceof SvcError)) throw thrown;
    seen.failure = thrown;
  }
  return seen;
}
