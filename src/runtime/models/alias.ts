import type { Config } from '../../config/config.ts';
import { hasOwnLoad, type ModelPresets, requestPart } from '../../config/presets.ts';
import { withoutNull } from '../../contract/check.ts';
import type { RunInput } from '../../contract/contract.ts';
import { type Message, shortMessages } from '../../contract/messages/parts.ts';
import type { CreatedModel } from '../../ports/providers.ts';

/**
 * The alias that a name means. Programs of Ollama write `:latest` after a name that has no tag.
 * Null: it is not an alias.
 */
export function aliasOf(name: string, aliases: object): string | null {
  return [name, withoutTag(name)].find((each) => Object.hasOwn(aliases, each)) ?? null;
}

export function withoutTag(name: string): string {
  return name.replace(/:latest$/, '');
}

/** The models of aliases that are loaded with their own settings. */
export function loadedAliasesOf({
  aliases,
  alias_presets,
}: Pick<Config, 'aliases' | 'alias_presets'>): CreatedModel[] {
  return Object.entries(alias_presets).flatMap(([name, preset]) => {
    const model = aliases[name];
    if (typeof model !== 'string' || !hasOwnLoad(preset)) return [];
    const { chat_template, adapters } = preset;
    return [withoutNull({ name, model, chat_template, adapters }) as CreatedModel];
  });
}

/**
 * The request with the defaults of its alias. A text that is continued as it is gets no turns
 * before it.
 */
export function withPreset(input: RunInput, presets: ModelPresets): RunInput {
  const alias = typeof input.model === 'string' ? presetOf(input.model, presets) : null;
  if (alias === null) return input;
  const { system, messages: turns = [], ...fields } = requestPart(presets[alias]);
  const request = { ...fields, ...input } as RunInput;
  if (input.raw === true || input.suffix != null) return request;
  const said = input.messages ?? shortMessages(input.prompt ?? '', input.system ?? null);
  const isSystemSaid = said.some(({ role }) => role === 'system');
  const first = system === undefined || isSystemSaid ? [] : [turnOf('system', system)];
  // A later turn of a conversation has these messages from the first one.
  const examples = input.conversation == null ? turns : [];
  if (first.length + examples.length === 0) return request;
  const opening = said[0]?.role === 'system' ? 1 : 0;
  const { prompt: _, system: __, ...rest } = request;
  const before = examples.map(({ role, text }) => turnOf(role, text));
  const all = [...first, ...said.slice(0, opening), ...before, ...said.slice(opening)];
  return { ...rest, messages: all } as RunInput;
}

/**
 * The alias whose preset counts. One that is loaded with its own settings is at the local engine,
 * too.
 */
function presetOf(model: string, presets: ModelPresets): string | null {
  const [, name = ''] = /^local\/(.+)$/.exec(model) ?? [];
  return hasOwnLoad(presets[name]) ? name : aliasOf(model, presets);
}

function turnOf(role: Message['role'], text: string): Message {
  return { role, content: [{ type: 'text', text }] };
}
