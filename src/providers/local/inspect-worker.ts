import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { GGMLFileQuantizationType, gguf } from '@huggingface/gguf';
import { answerQuestions } from '../../async/foreign-child.ts';
import { partsOf } from '../../models/gguf/parts.ts';
import { sha256Of } from '../../models/gguf/sha256.ts';
import { CALLS } from './engine/forms/calls.ts';
import { rowOf } from './engine/forms/form.ts';
import { THOUGHTS } from './engine/forms/thoughts.ts';
import { libraryFile } from './engine/library-file.ts';
import { openAddon } from './engine/native/addon.ts';
import { chooseTemplate } from './engine/template/choose.ts';
import {
  inspectModel,
  invalidModel,
  type ModelDescription,
  type Parsed,
  plainMetadata,
  type TemplateUse,
} from './inspection.ts';
import type { Question } from './inspector.ts';
import { HASHED_BYTES_MAX } from './model-identity.ts';

/** Process that reads headers of model files in order. A header may be large or hostile. */
answerQuestions((question: Question, within) =>
  inspect(question, within).catch((error: Error) => invalidModel(error.message)),
);

async function inspect(
  { path, size_bytes, templates, renders, metadata_bytes }: Question,
  within: (ms: number) => void,
): Promise<ModelDescription> {
  const files = partsOf(path);
  const parts: Parsed[] = [];
  for (const file of files)
    parts.push(
      await readFile(file).catch((error: Error) => {
        const where = files.length === 1 ? '' : `the part ${basename(file)}: `;
        throw new Error(where + error.message, { cause: error });
      }),
    );
  const [first] = parts as [Parsed];
  const { metadata } = first;
  const digest = size_bytes <= HASHED_BYTES_MAX ? `sha256:${await sha256Of(path)}` : null;
  const names = await architectures();
  // A template may do what no check has found.
  if (renders) within(TEMPLATE_MS);
  const { used, ...about } = templateOf({ ...metadata }, templates, renders);
  return {
    ...inspectModel(parts, GGMLFileQuantizationType, names, used),
    ...about,
    digest,
    metadata: metadata_bytes === null ? null : plainMetadata(metadata, metadata_bytes),
  };
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

async function readFile(path: string): Promise<Parsed> {
  const { size } = await stat(path);
  const parsed = await gguf(path, { allowLocalFile: true, computeParametersCount: true });
  if (parsed.tensorInfoByteRange[1] > size) throw new Error('the file is cut off');
  return { ...parsed, name: basename(path), size_bytes: size };
}

/** What the engine does with the template, and what users see of it. */
function templateOf(
  known: Readonly<Record<string, unknown>>,
  named: readonly string[],
  renders: boolean,
): { used: TemplateUse | null; template?: string; template_problem?: string } {
  const template = known['tokenizer.chat_template'];
  const source = typeof template === 'string' ? template : null;
  const isPlain = source === null && named.length === 0;
  if (!renders || isPlain || !canRender()) return { used: source === null ? null : usedAs(source) };
  const tokens = known['tokenizer.ggml.tokens'];
  const vocabulary = Array.isArray(tokens) ? (tokens as string[]) : [];
  const file = { source, bos_token: '', eos_token: '', vocabulary };
  const { name, text, problem, template: chosen } = chooseTemplate(file, named);
  const used = chosen === null ? null : { tools: chosen.hasTools, thinking: usedAs(text).thinking };
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
function usedAs(text: string): TemplateUse {
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
