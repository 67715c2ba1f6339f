import type { Presets } from '../../config/presets.ts';
import type { RunInput } from '../../contract/contract.ts';

/**
 * The alias that a name means. Programs of Ollama write `:latest` after a name that has no tag.
 * Null: it is none.
 */
export function aliasOf(name: string, aliases: object): string | null {
  return [name, withoutTag(name)].find((each) => Object.hasOwn(aliases, each)) ?? null;
}

export function withoutTag(name: string): string {
  return name.replace(/:latest$/, '');
}

/** The request, with what its alias asks for where the request says nothing itself. */
export function withPreset(input: RunInput, presets: Presets): RunInput {
  const alias = typeof input.model === 'string' ? aliasOf(input.model, presets) : null;
  if (alias === null) return input;
  const { system, ...fields } = presets[alias] ?? {};
  const { messages = null } = input;
  const request = { ...fields, ...input } as RunInput;
  const isSaid = input.system != null || messages?.some(({ role }) => role === 'system') === true;
  if (system === undefined || isSaid) return request;
  if (messages === null) return { ...request, system };
  const first = { role: 'system' as const, content: [{ type: 'text' as const, text: system }] };
  return { ...request, messages: [first, ...messages] };
}
