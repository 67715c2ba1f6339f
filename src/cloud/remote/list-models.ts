import type { ProviderKeys } from '../../config/keys/port.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import type { ModelRecord } from '../../contract/model-record.ts';
import { namedModel } from '../../contract/model-record.ts';
import { SvcError } from '../../errors.ts';
import { asRecord } from '../../json.ts';
import { jsonBudgets, type Limits } from '../../limits.ts';
import { streamFailure } from './connection-failure.ts';
import { readBody } from './failure.ts';
import { readSecrets } from './read-secrets.ts';
import type { Exchange } from './upstream.ts';

export interface Listing {
  id: string;
  config: ProviderConfig;
  keys: ProviderKeys;
  limits: Limits;
}

/** The call that lists the models of a family of providers. */
export interface ListCall {
  url: string;
  headers(key: string | null): Headers;
  /** Converts the answer to a list that has `id` or `name`. Absent: it has that form. */
  convert?(value: unknown): unknown;
}

/** The models that the server lists. Empty for a server without a list. Throws SvcError. */
export async function listModels(
  listing: Listing,
  exchange: Exchange,
  { url, headers, convert = (value) => value }: ListCall,
  signal: AbortSignal,
): Promise<ModelRecord[]> {
  const { id, config, limits } = listing;
  const secrets = await readSecrets(listing);
  let ended: 'complete' | 'broken' = 'broken';
  try {
    const { body } = await exchange.send({
      method: 'GET',
      url,
      headers: Object.fromEntries(headers(secrets.key)),
      model: null,
      secrets,
      signal,
    });
    const value = await readBody(body, 'a list of models', {
      ...jsonBudgets.list,
      bytes: limits.provider_list_bytes,
    });
    ended = 'complete';
    return readModels(convert(value), {
      provider: id,
      model: config.model,
      modelsMax: limits.provider_models,
    });
  } catch (thrown) {
    if (signal.aborted)
      throw tooLate(config.base_url ?? new URL(url).origin, exchange.abortedWhenOpen);
    if (thrown instanceof SvcError && thrown.status !== null && NO_LIST_STATUSES.has(thrown.status))
      return [];
    throw streamFailure(thrown);
  } finally {
    await exchange.end(ended);
  }
}

/** Statuses of a server that has no list of models. It can answer prompts all the same. */
const NO_LIST_STATUSES = new Set([404, 405, 501]);

/** A provider that takes the connection is there. It may be slow or busy. */
function tooLate(base_url: string, isOpen: boolean): SvcError {
  const did = isOpen ? 'takes the connection, but does not answer' : 'does not answer';
  return new SvcError(
    isOpen ? 'provider_timed_out' : 'provider_unreachable',
    `The provider at ${base_url} ${did} in time.`,
    { retryable: true },
  );
}

/** The provider that sent the list. */
interface Listed {
  provider: string;
  /** The configured default. */
  model: string | null;
  modelsMax: number;
}

/**
 * Reads a list of models: `{data: […]}` as OpenAI sends it, `{models: […]}`, or the bare list. A
 * missing value becomes null. Throws provider_rejected.
 */
function readModels(value: unknown, { provider, model, modelsMax }: Listed): ModelRecord[] {
  const body = asRecord(value);
  const list = [value, body.data, body.models].find(Array.isArray);
  if (list === undefined)
    throw new SvcError(
      'provider_rejected',
      'The provider answers, but not with a list of models.',
      { retryable: false },
    );
  const records = new Map<string, ModelRecord>();
  for (const item of list) {
    const entry = asRecord(item);
    const name = entry.id ?? entry.name;
    if (typeof name === 'string' && NAME.test(name) && records.size < modelsMax)
      records.set(name, toRecord(name, entry, provider, name === model));
  }
  return [...records.values()];
}

const NAME = /^[^\p{Cc}\p{Cf}\s][^\p{Cc}\p{Cf}]{0,255}$/u;

function toRecord(
  name: string,
  entry: Record<string, unknown>,
  provider: string,
  isDefault: boolean,
): ModelRecord {
  const meta = asRecord(entry.meta);
  return {
    ...namedModel(provider, name),
    size_bytes: firstPositive(meta.size),
    parameters: firstPositive(meta.n_params),
    context_length: firstPositive(
      entry.context_length,
      entry.max_model_len,
      entry.context_window,
      entry.max_context_length,
      meta.n_ctx_train,
    ),
    default: isDefault,
  };
}

/** The first positive integer. Servers use several names for the same value. */
function firstPositive(...values: unknown[]): number | null {
  return (
    values.find((value): value is number => Number.isSafeInteger(value) && Number(value) > 0) ??
    null
  );
}
