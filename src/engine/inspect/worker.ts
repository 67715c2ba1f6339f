import { CALLS, rowOf, THOUGHTS } from '../../answer-forms/index.ts';
import { answerQuestions } from '../../async/foreign-child.ts';
import { checkGguf, type Entries, sha256Of, whyOf } from '../../models/index.ts';
import { type Vocabulary, vocabularyProblem } from '../decode/vocabulary.ts';
import { libraryFile } from '../library-file.ts';
import { openAddon } from '../native/addon.ts';
import { chooseTemplate } from '../template/choose.ts';
import {
  HASHED_BYTES_MAX,
  inspectModel,
  invalidModel,
  type ModelDescription,
  plainMetadata,
  type Question,
  type TemplateUse,
} from './inspection.ts';

/** Process that reads headers of model files in order. A header may be large or hostile. */
answerQuestions((question: Question, within) =>
  inspect(question, within).catch((error: Error) => invalidModel(whyOf(error))),
);

async function inspect(
  { path, size_bytes, header_bytes, templates, draft, renders, metadata_bytes }: Question,
  within: (ms: number) => void,
): Promise<ModelDescription> {
  const headers = await checkGguf(path, header_bytes);
  const [{ entries }] = headers;
  const digest = size_bytes <= HASHED_BYTES_MAX ? `sha256:${await sha256Of(path)}` : null;
  const names = await architectures();
  const draft_problem = draft === null ? null : await draftProblem(entries, draft, header_bytes);
  // A template may fail in ways that no check has found.
  if (renders) within(TEMPLATE_MS);
  const { used, ...about } = templateOf(entries, templates, renders);
  return {
    ...inspectModel(headers, size_bytes, names, used),
    ...about,
    ...(draft === null ? {} : { draft_problem }),
    digest,
    metadata: metadata_bytes === null ? null : plainMetadata(entries, metadata_bytes),
  };
}

/** Why the model in another file cannot guess the tokens of one. Null: it can. */
async function draftProblem(
  entries: Entries,
  path: string,
  header_bytes: number,
): Promise<string | null> {
  try {
    const [draft] = await checkGguf(path, header_bytes);
    return vocabularyProblem(vocabularyOf(entries), vocabularyOf(draft.entries));
  } catch (thrown) {
    return whyOf(thrown as Error);
  }
}

function vocabularyOf(entries: Entries): Vocabulary {
  const texts = textsOf(entries);
  const id = (name: string) => entries.number(`tokenizer.ggml.${name}_token_id`) ?? null;
  return {
    vocabulary: texts.length,
    tokens: { bos: id('bos'), eos: id('eos') },
    textOf: (token) => texts[token] ?? '',
  };
}

function textsOf(entries: Entries): string[] {
  const tokens = entries.value('tokenizer.ggml.tokens');
  return Array.isArray(tokens) ? (tokens as string[]) : [];
}

/**
 * The architectures that the library of the engine knows. llama.cpp may know more. A test notices
 * when the list moves. Empty: the library is not installed.
 */
async function architectures(): Promise<ReadonlySet<unknown>> {
  try {
    const { GgufArchitectureType: names } = await import(libraryFile(LIST).href);
    return new Set(Object.values(names));
  } catch {
    return new Set();
  }
}

const LIST = 'dist/gguf/types/GgufMetadataTypes.js';

/** How the engine uses the template, and what users see of it. */
function templateOf(
  entries: Entries,
  named: readonly string[],
  renders: boolean,
): { used: TemplateUse | null; template?: string; template_problem?: string } {
  const template = entries.value('tokenizer.chat_template');
  const source = typeof template === 'string' ? template : null;
  const isPlain = source === null && named.length === 0;
  if (!renders || isPlain || !canRender())
    return { used: source === null ? null : templateUseOf(source) };
  const vocabulary = { includes: (text: string) => textsOf(entries).includes(text) };
  const file = { source, bos_token: '', eos_token: '', vocabulary };
  const { name, text, problem, template: chosen } = chooseTemplate(file, named);
  const used =
    chosen === null ? null : { tools: chosen.hasTools, thinking: templateUseOf(text).thinking };
  if (problem === null) return { used, ...placeOf(name) };
  const instead =
    { none: 'prompts are continued as they are', file: 'that of its file is used' }[name] ??
    `${name} is used instead`;
  return { used, template_problem: `cannot be rendered (${problem}), so ${instead}` };
}

/** Where the template is from, for users. Absent: from the file. */
function placeOf(name: string): { template?: string } {
  if (name === 'file') return {};
  return { template: name === 'given' ? 'its own' : `${name} (model_templates)` };
}

/** Of a template that is not rendered here. */
function templateUseOf(text: string): TemplateUse {
  return {
    tools: rowOf(CALLS, text) !== null,
    thinking: (rowOf(THOUGHTS, text)?.reasoning ?? null) !== null,
  };
}

/** Without the addon there is no engine either, and a managed server has its own renderer. */
function canRender(): boolean {
  try {
    return openAddon() !== null;
  } catch {
    return false;
  }
}

const TEMPLATE_MS = 2000;
