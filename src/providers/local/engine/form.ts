import type { ChatWrapper, ChatWrapperSettings, LlamaModel, LlamaText } from 'node-llama-cpp';
import type { Tool } from '../../../../machines/messages.ts';
import type { Options } from '../../../contract/options.ts';
import { SvcError } from '../../../errors.ts';
import type { Required, ThoughtBound } from './constraint.ts';
import type { LoadedModel } from './load.ts';
import type { RunOrder } from './messages.ts';
import { exactMark, looseMark } from './reader/mark.ts';
import type { AnswerForm, CallForm } from './reader/reader.ts';

/** How a model writes tool calls and reasoning, from the settings of its chat template. */

type CallSettings = ChatWrapperSettings['functions'];
type Part = string | LlamaText | undefined;

/** Templates of the library whose calls have a name, and JSON as arguments. */
const CALLING: ReadonlySet<string> = new Set([
  'Qwen',
  'DeepSeek',
  'Mistral',
  'Seed',
  'Llama 3.1',
  'Llama 3.2 lightweight',
]);

/** The form of tool calls. Null: the template has none. */
export function callSettings(wrapper: ChatWrapper): CallSettings | null {
  const { usingJinjaFunctionCallTemplate: isInTemplate } = wrapper as {
    usingJinjaFunctionCallTemplate?: boolean;
  };
  const has = isInTemplate ?? CALLING.has(wrapper.wrapperName);
  return has ? wrapper.settings.functions : null;
}

/** The tools that the answer may call. */
export function callableTools({ options }: Pick<RunOrder, 'options'>): readonly Tool[] {
  const { tools = [], tool_choice: choice = 'auto' } = options;
  if (choice === 'none') return [];
  return typeof choice === 'object' ? tools.filter(({ name }) => name === choice.name) : tools;
}

/** Whether the answer must be a call of a tool. */
function mustCall({ options: { tool_choice: choice = 'auto' } }: RunOrder): boolean {
  return choice === 'required' || typeof choice === 'object';
}

/** Throws capability_missing for what the model cannot do, before anything is computed. */
export function checkCapabilities({ wrapper, built_in }: LoadedModel, order: RunOrder): void {
  for (const [index, { content }] of order.messages.entries()) {
    const place = content.findIndex(({ type }) => type === 'image');
    if (place !== -1)
      throw missing(
        'The local engine reads no images. Start llama-server with the model and --mmproj, ' +
          'and add it: svc provider add llama-server',
        `messages.${index}.content.${place}`,
      );
  }
  if (callableTools(order).length > 0 && (built_in || callSettings(wrapper) === null))
    throw missing('The chat template of the model has no tools.', 'tools');
  if (order.messages.at(-1)?.continued === true) {
    if (built_in)
      throw missing(
        'The built-in model answers questions, and does not go on with an answer.',
        `messages.${order.messages.length - 1}`,
      );
    if (order.options.response_format !== undefined)
      throw missing('An answer of a given form has no beginning in the request.', 'messages');
  }
  if (built_in && order.options.response_format !== undefined)
    throw missing(
      'The built-in model answers questions about svc in plain text. It writes no JSON.',
      'response_format',
    );
}

export function answerForm(loaded: LoadedModel, order: RunOrder): AnswerForm {
  const { wrapper, built_in } = loaded;
  const stop = (order.options.stop ?? []).map((text) => ({ text, mark: exactMark(text) }));
  const tools = callableTools(order);
  const settings = tools.length === 0 ? null : callSettings(wrapper);
  return {
    stop,
    reasoning: built_in ? null : reasoningForm(loaded, order),
    calls: settings === null ? null : callForm(settings, tools, order),
  };
}

/** How long the model may reason. Null: as long as it wants, or it has no form of reasoning. */
export function thoughtBound(loaded: LoadedModel, order: RunOrder): ThoughtBound | null {
  const { reasoning_effort: effort } = order.options;
  const tokens = effort === undefined ? undefined : REASONING_TOKENS[effort];
  const form = loaded.built_in ? null : reasoningForm(loaded, order);
  return tokens === undefined || form === null ? null : { tokens, close: form.closeText };
}

/** Most tokens of reasoning for an effort. One that is not here has no bound but the context. */
const REASONING_TOKENS: Readonly<Partial<Record<Options['reasoning_effort'], number>>> = {
  none: 0,
  minimal: 128,
  low: 1024,
  medium: 4096,
};

/** What the answer must consist of. Null: the model is free. */
export function requiredForm({ wrapper }: LoadedModel, order: RunOrder): Required | null {
  const format = order.options.response_format ?? null;
  const tools = callableTools(order);
  const settings = tools.length === 0 ? null : callSettings(wrapper);
  if (settings !== null && mustCall(order))
    return { format: null, calls: tools.map(({ name }) => begins(settings, name)[0] ?? ''), tools };
  if (format === null) return null;
  const calls = settings === null ? [] : tools.map(({ name }) => begins(settings, name)[0] ?? '');
  return { format, calls, tools };
}

function reasoningForm(
  { wrapper, knowsTags }: LoadedModel,
  { messages }: RunOrder,
): (NonNullable<AnswerForm['reasoning']> & { closeText: string }) | null {
  const thought = wrapper.settings.segments?.thought;
  const closeText = textOf(thought?.suffix);
  const close = looseMark(closeText);
  if (thought === undefined || close.letters === '') return knowsTags ? TAGS : null;
  const { prefix } = thought;
  const isOpened = typeof prefix === 'object' && 'type' in prefix;
  const open = isOpened ? '' : textOf(prefix);
  return {
    open: open === '' ? null : looseMark(open),
    close,
    closeText,
    atStart: isOpened && messages.at(-1)?.role !== 'assistant',
  };
}

/** The library takes some templates with these tags for others without reasoning. */
export function knowsReasoningTags({ fileInfo }: LlamaModel): boolean {
  const { chat_template: template, ggml } = fileInfo.metadata.tokenizer ?? {};
  return template?.includes('</think>') === true || ggml?.tokens?.includes('</think>') === true;
}

const CLOSE_TAG = '\n</think>';
const TAGS = {
  open: looseMark('<think>'),
  close: looseMark(CLOSE_TAG),
  closeText: CLOSE_TAG,
  atStart: false,
};

function callForm(settings: CallSettings, tools: readonly Tool[], order: RunOrder): CallForm {
  const { parallelism } = settings;
  const several =
    parallelism !== undefined && !mustCall(order) && order.options.parallel_tool_calls !== false;
  const between = textOf(parallelism?.call.betweenCalls);
  const marks = (texts: (name: string) => readonly string[]) =>
    tools.flatMap(({ name }) => texts(name).map((text) => ({ name, mark: looseMark(text) })));
  const ends = [textOf(settings.call.suffix), textOf(parallelism?.call.sectionSuffix), between].map(
    looseMark,
  );
  return {
    open: marks((name) => begins(settings, name)),
    next: several
      ? marks((name) => [
          ...begins(settings, name),
          ...begins(settings, name, ['']).map((text) => between + text),
          ...begins(settings, name, ['']),
        ])
      : [],
    close: ends.filter(({ letters }) => letters !== ''),
    id: (index) => `call_${order.call_key}_${index}`,
  };
}

/** The texts up to the arguments of a call. The first one is what the template writes. */
function begins(
  { call, parallelism }: CallSettings,
  name: string,
  sections: readonly string[] = [
    textOf(parallelism?.call.sectionPrefix),
    ...(parallelism?.call.sectionPrefixAlternateMatches ?? []).map(textOf),
  ],
): readonly string[] {
  const prefixes = [call.prefix, ...(call.prefixAlternateMatches ?? [])].map(textOf);
  const rest = name + textOf(call.paramsPrefix).replaceAll('{{functionName}}', name);
  return sections.flatMap((section) => prefixes.map((prefix) => section + prefix + rest));
}

/** The text of a setting. A builtin token, such as the end of the answer, has none. */
function textOf(part: Part): string {
  if (part === undefined || typeof part === 'string') return part ?? '';
  return part.values
    .map((value) =>
      typeof value === 'string' ? value : 'tokenizeSpecialTokensOnly' in value ? value.value : '',
    )
    .join('');
}

function missing(message: string, param: string): SvcError {
  return new SvcError('capability_missing', message, { param });
}
