import { type CallRow, TAGS, type ThoughtRow, textFormOf } from '../answer-forms/index.ts';
import { isMedia, type Tool } from '../contract/messages/parts.ts';
import type { Options } from '../contract/options.ts';
import { SvcError } from '../errors.ts';
import type { Required, ThoughtBound } from './constraint.ts';
import type { LoadedModel } from './load.ts';
import type { Model } from './native/model.ts';
import type { RunOrder } from './protocol/messages.ts';
import type { AnswerForm } from './reader/reader.ts';

/** What an answer may consist of, for one model and one request. */

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

/** Throws capability_missing for a request beyond the model, before anything is computed. */
export function checkCapabilities(loaded: LoadedModel, order: RunOrder): void {
  const { built_in, template } = loaded;
  const form = textFormOf(order.options);
  checkBare(loaded, order);
  for (const [index, { content }] of order.messages.entries()) {
    const place = content.findIndex(isMedia);
    const lack = content[place]?.type === 'audio' ? 'hears no audio' : 'reads no images';
    if (place !== -1 && built_in)
      throw missingError(
        `The built-in model answers questions about svc, and ${lack}.`,
        `messages.${index}.content.${place}`,
      );
    if (place !== -1)
      throw missingError(
        `The local engine ${lack}. A llama-server does, with the mmproj file of the model: ` +
          'svc engine install llama-server',
        `messages.${index}.content.${place}`,
      );
  }
  if (callableTools(order).length > 0 && (built_in || template === null))
    throw missingError(toolsRefusal(loaded), 'tools');
  if (order.messages.at(-1)?.continued === true) {
    if (built_in)
      throw missingError(
        'The built-in model answers questions, and does not continue an answer.',
        `messages.${order.messages.length - 1}`,
      );
    if (form !== null)
      throw missingError('An answer of a given form has no beginning in the request.', 'messages');
  }
  if (built_in && form !== null)
    throw missingError(
      'The built-in model answers questions about svc in plain text. It keeps to no form.',
      form.param,
    );
}

function toolsRefusal({ built_in }: LoadedModel): string {
  return built_in
    ? 'The built-in model answers questions about svc, and calls no tools.'
    : 'The model has no chat template, so it only continues texts and calls no tools.';
}

/** Throws capability_missing for a field that a text that is continued as it is cannot have. */
function checkBare({ built_in, model }: LoadedModel, order: RunOrder): void {
  const { raw = false, suffix } = order.options;
  if (!raw && suffix === undefined) return;
  const param = raw ? 'raw' : 'suffix';
  if (built_in)
    throw missingError('The built-in model answers questions, and continues no text.', param);
  const isAlone = suffix !== undefined || order.messages.length === 1;
  if (!isAlone || order.messages.some(({ role }) => role !== 'user'))
    throw missingError('A text that is continued as it is has no other messages.', 'messages');
  if (callableTools(order).length > 0)
    throw missingError('A text that is continued as it is has no tools.', 'tools');
  const { prefix, suffix: after } = model.tokens.infill;
  if (suffix !== undefined && (prefix === null || after === null))
    throw missingError('The model has no tokens to fill in the middle of a text.', 'suffix');
}

/** Null: the text of the prompt is continued as it is. */
export function templateFor({ template }: LoadedModel, { options }: RunOrder) {
  return options.raw === true || options.suffix !== undefined ? null : template;
}

export function answerForm(loaded: LoadedModel, order: RunOrder, isReasoning: boolean): AnswerForm {
  const { stop = [], parallel_tool_calls } = order.options;
  const tools = callableTools(order);
  const rows = callRows(loaded, order);
  return {
    stop,
    thoughts: thoughtRow(loaded, order),
    isReasoning,
    calls:
      rows.length === 0
        ? null
        : {
            rows,
            tools,
            several: !mustCall(order) && parallel_tool_calls !== false,
            id: (index) => `call_${order.call_key}_${index}`,
          },
  };
}

/** The forms in which the answer may call tools. */
function callRows(loaded: LoadedModel, order: RunOrder): readonly CallRow[] {
  return callableTools(order).length === 0 ? [] : (templateFor(loaded, order)?.calls ?? []);
}

/** How long the model may reason. Null: as long as it wants, or it has no form of reasoning. */
export function thoughtBound(loaded: LoadedModel, order: RunOrder): ThoughtBound | null {
  const { reasoning_effort: effort, reasoning_budget_tokens: budget } = order.options;
  const tokens = budget ?? (effort === undefined ? undefined : REASONING_TOKENS[effort]);
  const reasoning = thoughtRow(loaded, order)?.reasoning ?? null;
  return tokens === undefined || reasoning === null ? null : { tokens, close: reasoning.closing };
}

/** Most tokens of reasoning for an effort. One that is not here has no bound but the context. */
const REASONING_TOKENS: Readonly<Partial<Record<Options['reasoning_effort'], number>>> = {
  none: 0,
  minimal: 128,
  low: 1024,
  medium: 4096,
};

/** The effort that the template gets. Without any tokens a model need not begin. */
export function effortOf({ options }: RunOrder): Options['reasoning_effort'] | undefined {
  return options.reasoning_budget_tokens === 0 ? 'none' : options.reasoning_effort;
}

/** The required form of the answer. Null: the model is free. */
export function requiredForm(loaded: LoadedModel, order: RunOrder): Required | null {
  const format = textFormOf(order.options) ?? 'free';
  const tools = callableTools(order);
  const [row = null] = callRows(loaded, order);
  if (row !== null && mustCall(order)) return { text: 'none', row, tools };
  return format === 'free' && row === null ? null : { text: format, row, tools };
}

/** The form of reasoning. A template without one may be of a model that writes tags. */
export function thoughtRow(loaded: LoadedModel, order: RunOrder): ThoughtRow | null {
  const { knowsTags, built_in } = loaded;
  const template = templateFor(loaded, order);
  if (built_in || template === null) return null;
  return template.thoughts ?? (knowsTags ? TAGS : null);
}

/** Whether the template or the vocabulary has the tags of reasoning. */
export function knowsReasoningTags(model: Model, template: string): boolean {
  return template.includes('</think>') || model.hasToken('</think>');
}

function missingError(message: string, param: string): SvcError {
  return new SvcError('capability_missing', message, { param });
}
