import type { RunRequest } from '../../../contract/messages/parts.ts';
import { fromOllama, type OptionName, ollamaOption } from '../../../contract/options.ts';
import { isRecord, parseForeignJson } from '../../../json.ts';

/** What another program asks a model for where a request says nothing. */
export interface ModelDefaults {
  system?: string;
  options: Partial<Pick<RunRequest, OptionName>>;
}

/**
 * The layers `system` and `params` of a model of Ollama. What svc does not have, or not with this
 * value, is unused. A layer is undefined if the model has none, and null if it cannot be read.
 */
export function readDefaults(
  system: string | null | undefined,
  params: string | null | undefined,
): { defaults: ModelDefaults | null; unused: string[] } {
  const found = params == null ? null : parseObject(params);
  const unused = [
    ...(system === null ? ['system'] : []),
    ...(params !== undefined && found === null ? ['params'] : []),
  ];
  const options: [string, unknown][] = [];
  for (const [name, value] of Object.entries(found ?? {})) {
    const known = ollamaOption(name);
    const own = known === undefined ? undefined : fromOllama(known, value);
    if (known === undefined || own === undefined) unused.push(`params ${name}`);
    else if (own !== null) options.push([known, own]);
  }
  const isEmpty = (system ?? '') === '' && options.length === 0;
  return {
    unused,
    defaults: isEmpty
      ? null
      : { ...(system ? { system } : {}), options: Object.fromEntries(options) },
  };
}

/**
 * The request with defaults for the fields that it omits. A text that is continued gets no system
 * text.
 */
export function withDefaults(request: RunRequest, defaults?: ModelDefaults): RunRequest {
  if (defaults === undefined) return request;
  const { system, options } = defaults;
  const { messages, raw, suffix, seed_asked } = request;
  const { seed, ...others } = options;
  const missing = Object.entries(others).filter(
    ([name]) => (request[name as OptionName] ?? null) === null,
  );
  const isSaid = messages.some(({ role }) => role === 'system') || raw === true || suffix != null;
  const first = {
    role: 'system' as const,
    content: [{ type: 'text' as const, text: system ?? '' }],
  };
  return {
    ...request,
    ...(Object.fromEntries(missing) as typeof others),
    ...(seed == null || seed_asked ? {} : { seed, seed_asked: true }),
    ...(system === undefined || isSaid ? {} : { messages: [first, ...messages] }),
  };
}

function parseObject(text: string): object | null {
  const value = parseForeignJson(text);
  return isRecord(value) && !Array.isArray(value) ? value : null;
}
