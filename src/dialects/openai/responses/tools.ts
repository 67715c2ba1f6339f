import { createHash } from 'node:crypto';
import * as v from 'valibot';
import type { SentName } from '../../../../machines/conversation.ts';
import { toolsOfServer } from '../../../../machines/run/turns.ts';
import { invalidRequest } from '../../../contract/check.ts';
import type { ToolNarrowing } from '../../../contract/contract.ts';
import type { Tool, ToolChoice } from '../../../contract/messages/parts.ts';
import { servedName } from '../../../runtime/tools/served-tools.ts';
import { mcpTool, namedTool } from '../../mcp-tools.ts';
import { functionFields, listWithout, object, oneOf, text } from '../parameters.ts';
import { customArguments } from './custom-input.ts';

/**
 * The tools of a request.
 *
 * 1. A run knows functions only. A custom tool is a function with one text. A tool of a namespace
 *    has both names in its own. The fields of the response say what the client calls it.
 * 2. A tool `mcp` names a server of the configuration. svc carries out its calls.
 * 3. Tools that run on OpenAI's servers are left out, as unknown fields are.
 */

const aFunction = object({ type: v.literal('function'), ...functionFields });
const custom = object({
  type: v.literal('custom'),
  name: text,
  description: v.nullish(text),
  format: v.nullish(
    v.variant(
      'type',
      [
        object({ type: v.literal('text') }),
        object({ type: v.literal('grammar'), syntax: oneOf(['lark', 'regex']), definition: text }),
      ],
      'must be an object with the type text or grammar.',
    ),
  ),
});
const namespace = object({
  type: v.literal('namespace'),
  name: text,
  description: v.nullish(text),
  tools: listOf(
    v.variant('type', [aFunction, custom], 'must be function or custom.'),
    new Set(['function', 'custom']),
  ),
});
export const ownTools = listOf(
  v.variant('type', [aFunction, custom, namespace], 'must be function, custom or namespace.'),
  new Set(['function', 'custom', 'namespace']),
);
export const sentTools = listOf(
  v.variant(
    'type',
    [aFunction, custom, namespace, mcpTool],
    'must be function, custom, namespace or mcp: svc has no tools of OpenAI.',
  ),
  new Set(['function', 'custom', 'namespace', 'mcp']),
);

function listOf<S extends v.GenericSchema>(item: S, own: ReadonlySet<string>) {
  return listWithout((type) => !own.has(type), item, 'must be a list of tools.');
}

const named = v.variant(
  'type',
  [
    object({ type: v.picklist(['function', 'custom']), name: text, namespace: v.nullish(text) }),
    object({ type: v.literal('mcp'), server_label: text, name: v.nullish(text) }),
  ],
  'must be function, custom or mcp.',
);
export const toolChoice = v.union(
  [
    oneOf(['none', 'auto', 'required']),
    named,
    object({
      type: v.literal('allowed_tools'),
      mode: oneOf(['auto', 'required']),
      tools: v.array(named, 'must be a list of names of tools.'),
    }),
  ],
  'must be none, auto, required, allowed_tools, or an object that names a function, a custom ' +
    'tool, or a tool of a server.',
);

/** By the name in the run. A function of the same name is not in it. */
export type SentNames = Readonly<Record<string, SentName>>;

export interface Toolbox {
  tools: readonly Tool[];
  names: SentNames;
  /** `strict` of each function, by its name in the run. */
  strict: Readonly<Record<string, boolean | null>>;
}
export const NO_TOOLS: Toolbox = { tools: [], names: {}, strict: {} };

/** Both lists. A tool of the second one replaces its namesake. */
export function mergeToolboxes(before: Toolbox, after: Toolbox): Toolbox {
  const fresh = new Set(after.tools.map(({ name }) => name));
  return {
    tools: [...before.tools.filter(({ name }) => !fresh.has(name)), ...after.tools],
    names: { ...before.names, ...after.names },
    strict: { ...before.strict, ...after.strict },
  };
}

type Sent = v.InferOutput<typeof ownTools>[number];

export function toolboxOf(sent: readonly Sent[]): Toolbox {
  const tools: Tool[] = [];
  const names: Record<string, SentName> = {};
  const strict: Record<string, boolean | null> = {};
  const add = (one: Exclude<Sent, { type: 'namespace' }>, within?: string, about = '') => {
    const name = nameInRun(one.name, within);
    const { description, parameters } = one.type === 'custom' ? customTool(one) : one;
    const says = [about, description ?? ''].filter((part) => part !== '').join('\n\n');
    tools.push({ name, description: says === '' ? null : says, parameters: parameters ?? {} });
    strict[name] = one.type === 'custom' ? null : (one.strict ?? null);
    if (within === undefined && one.type === 'function') return;
    names[name] = {
      name: one.name,
      ...(within === undefined ? {} : { namespace: within }),
      ...(one.type === 'custom' ? { custom: true } : {}),
    };
  };
  for (const one of sent) {
    if (one.type !== 'namespace') add(one);
    // The description of the namespace is in its first tool.
    else
      for (const [index, inner] of one.tools.entries())
        add(inner, one.name, index === 0 ? (one.description ?? '') : '');
  }
  return { tools, names, strict };
}

/** A run takes names of 64 characters. A longer one ends with a digest. */
export function nameInRun(name: string, namespace?: string | null): string {
  const whole = namespace == null ? name : `${namespace}__${name}`;
  if (namespace == null || whole.length <= NAME_MAX) return whole;
  const digest = createHash('sha256').update(whole).digest('hex').slice(0, DIGEST);
  return `${whole.slice(0, NAME_MAX - DIGEST - 1)}_${digest}`;
}
const NAME_MAX = 64;
const DIGEST = 8;

function customTool({ description, format }: Extract<Sent, { type: 'custom' }>) {
  const grammar =
    format?.type === 'grammar'
      ? `The input follows this grammar (${format.syntax}):\n${format.definition}`
      : '';
  const says = [description ?? '', grammar].filter((part) => part !== '').join('\n\n');
  return { description: says, parameters: customArguments.schema };
}

/** The tools of a request: its own, and those of each server. */
interface Offered {
  toolbox: Toolbox;
  servers: readonly ToolNarrowing[];
}
type Named = v.InferOutput<typeof named>;

/** The choice of a run, and the tools that it may use. Throws invalid_request. */
export function chooseTools(
  { toolbox, servers }: Offered,
  choice: v.InferOutput<typeof toolChoice> | null | undefined,
): Offered & { choice: ToolChoice | null } {
  const { tools } = toolbox;
  if (choice == null || typeof choice === 'string')
    return { toolbox, servers, choice: choice ?? null };
  if (choice.type !== 'allowed_tools')
    return { toolbox, servers, choice: toForcedChoice({ toolbox, servers }, choice) };
  const allowed = new Set(
    choice.tools.flatMap((one) => (one.type === 'mcp' ? [] : runNameOf(one))),
  );
  const kept = { ...toolbox, tools: tools.filter(({ name }) => allowed.has(name)) };
  const narrowed = servers.flatMap((each) => {
    const own = choice.tools.filter(
      (one) => one.type === 'mcp' && one.server_label === each.server,
    );
    if (own.length === 0) return [];
    if (own.some(({ name }) => name == null)) return each;
    const { tool_names } = each.allowed;
    const both = own.flatMap(({ name }) =>
      name == null || tool_names?.includes(name) === false ? [] : name,
    );
    return { ...each, allowed: { ...each.allowed, tool_names: both } };
  });
  return { toolbox: kept, servers: narrowed, choice: choice.mode };
}

function runNameOf({ name, namespace }: Exclude<Named, { type: 'mcp' }>): string {
  return nameInRun(name, namespace);
}

function toForcedChoice({ toolbox: { tools }, servers }: Offered, choice: Named): ToolChoice {
  if (choice.type !== 'mcp') return { name: runNameOf(choice) };
  const { server_label: label, name } = choice;
  if (!servers.some(({ server }) => server === label))
    throw invalidRequest(
      'tool_choice',
      `tool_choice names the server ${label}, which is not in tools.`,
    );
  if (name != null) return { name: servedName(label, name) };
  return tools.length === 0 && servers.length === 1 ? 'required' : { name: namedTool(label) };
}

/** The tools as the client sent them, tools of one namespace together. */
export function shownTools(
  tools: readonly Tool[],
  names: SentNames,
  strict: Toolbox['strict'] = {},
): object[] {
  const shown: object[] = [];
  const inside = new Map<string, object[]>();
  for (const { name: inRun, description, parameters, server } of tools) {
    if (server !== undefined) continue;
    const { name, namespace, custom } = sentName(names, inRun);
    const tool =
      custom === true
        ? { type: 'custom', name, description }
        : { type: 'function', name, description, parameters, strict: strict[inRun] ?? null };
    if (namespace === undefined) shown.push(tool);
    else if (inside.has(namespace)) inside.get(namespace)?.push(tool);
    else {
      const own = [tool];
      inside.set(namespace, own);
      shown.push({ type: 'namespace', name: namespace, description: '', tools: own });
    }
  }
  return shown;
}

export function shownChoice(
  choice: ToolChoice,
  { names, tools }: Pick<Toolbox, 'names' | 'tools'>,
): unknown {
  if (typeof choice === 'string') return choice;
  const served = tools.find((tool) => tool.name === choice.name && tool.server !== undefined);
  if (served !== undefined) return { type: 'mcp', server_label: served.server, name: served.tool };
  const [any] = toolsOfServer(tools, choice.name);
  if (any !== undefined) return { type: 'mcp', server_label: any.server };
  const { name, namespace, custom } = sentName(names, choice.name);
  const within = namespace === undefined ? {} : { namespace };
  return { type: custom === true ? 'custom' : 'function', name, ...within };
}

export function sentName(names: SentNames, inRun: string): SentName {
  return Object.hasOwn(names, inRun) ? (names[inRun] as SentName) : { name: inRun };
}
