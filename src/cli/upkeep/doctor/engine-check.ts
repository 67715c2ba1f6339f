import { execFile } from 'node:child_process';
import { open } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { EngineRecord } from '../../../contract/contract.ts';
import { PROBE } from '../../../engine/index.ts';
import { betterBuild, buildsFolder, type Machine } from '../../../home/engine-builds.ts';
import { type Paths, packageRoot } from '../../../home/paths.ts';
import { oneLine } from '../../../logs/plain.ts';
import type { Results } from '../../../transport/control/protocol.ts';
import { askDaemon } from '../../terminal/connect/ask-daemon.ts';
import { type Check, type DoctorContext, fail, ok, type RunningDaemon, warn } from './check.ts';

/** The file is beside this one, in the sources and in the build. */
const ENTRY = fileURLToPath(PROBE);
const PROBE_MS = 30_000;
/** The header of a model may have a large vocabulary. */
const SHOW_MS = 30_000;
const BUILT_IN = 'svc-mini';

/** Starts llama.cpp in another process. Rejects if it cannot be loaded. */
export async function probeEngine(paths: Paths): Promise<{ gpu: string | false; cores: number }> {
  const { stdout } = await promisify(execFile)(process.execPath, [ENTRY, buildsFolder(paths)], {
    timeout: PROBE_MS,
  });
  return JSON.parse(stdout);
}

export async function checkEngine({ running, paths }: DoctorContext): Promise<Check[]> {
  const engines = running?.report.engines ?? [];
  const models = running?.status.models ?? [];
  const checks = engines.flatMap((engine) =>
    checkOf(engine, models.find(({ id }) => id === engine.model)?.gpu),
  );
  const isOnCard = models.some(({ gpu = null }) => gpu !== null && gpu !== 'cpu');
  if (checks.length > 0) return isOnCard ? checks : [...checks, ...checkBuild(buildsFolder(paths))];
  try {
    const { gpu, cores } = await probeEngine(paths);
    return [
      ok(
        'engine',
        `llama.cpp loads, ${gpu === false ? 'CPU' : gpu}, ${cores} ` +
          `core${cores === 1 ? '' : 's'}; threads are measured when a model is first loaded`,
      ),
      ...(gpu === false ? checkBuild(buildsFolder(paths)) : []),
    ];
  } catch {
    return [
      fail(
        'engine',
        'llama.cpp cannot be loaded on this machine.',
        'Install again without --omit=optional. Other providers work without it.',
      ),
    ];
  }
}

/** Whether the machine has a card that the engine could compute on. */
export function checkBuild(builds: string, machine?: Machine): Check[] {
  const better = betterBuild(builds, machine);
  if (better === null) return [];
  const { card, build } = better;
  const what = `The engine computes on the processor. This machine has a card of ${card}.`;
  return [warn('graphics card', what, `Run: svc engine install ${build}`)];
}

/** An engine that starts or stops has no result yet. */
function checkOf(engine: EngineRecord, gpu: string | null = null): Check[] {
  const { state, model, threads, context_length, error } = engine;
  if (state === 'crashed')
    return [warn('engine', `${model ?? 'It'} crashed: ${error}`, 'See: svc logs --level warn')];
  if (!state.startsWith('warm')) return [];
  const many = threads === 1 ? '' : 's';
  return [
    ok(
      'engine',
      `${model} loaded${gpu === null ? '' : ` on ${gpu}`}, ${threads} thread${many}, ` +
        `${context_length} tokens of context`,
    ),
  ];
}

export async function checkModel({
  inForce: config,
  paths,
  running,
}: DoctorContext): Promise<Check[]> {
  if (config === null) return [];
  if (running !== null) {
    const shown = await askDaemon(paths, 'model.show', { id: config.model }).catch(() => null);
    if (shown !== null) return [checkShown(shown)];
  }
  const path =
    config.model === BUILT_IN
      ? join(packageRoot(), 'src', 'providers', 'mini', `${BUILT_IN}.gguf`)
      : isAbsolute(config.model) || config.model.endsWith('.gguf')
        ? config.model
        : join(paths.models, `${config.model}.gguf`);
  const start = await readStart(path);
  if (start === null)
    return [
      fail(
        'model',
        `The default model ${config.model} is missing: ${path} cannot be read.`,
        'See: svc model list, and the setting `model` in svc config show',
      ),
    ];
  return [
    start === 'GGUF'
      ? ok('model', `${config.model}: ${path}`)
      : fail(
          'model',
          `The default model ${path} is not a GGUF file.`,
          'Download it again, or choose another with SVC_MODEL.',
        ),
  ];
}

/** The default model, as the daemon sees it. */
function checkShown({ name, path, problem = null }: Results['model.show']): Check {
  if (problem === null) return ok('model', `${oneLine(name)}: ${oneLine(path ?? '')}`);
  return fail(
    'model',
    `The default model ${oneLine(name)} cannot be used: ${oneLine(problem)}`,
    'Download it again, or choose another with: svc model use <name>',
  );
}

async function readStart(path: string): Promise<string | null> {
  const file = await open(path, 'r').catch(() => null);
  if (file === null) return null;
  try {
    const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
    return buffer.toString('latin1');
  } catch {
    return '';
  } finally {
    await file.close();
  }
}

/** Chat templates that cannot be rendered, and names of models that lead to none. */
export async function checkTemplates({ running, paths }: DoctorContext): Promise<Check[]> {
  if (running === null) return [];
  const problems = running.models.flatMap(({ id, template_problem }) =>
    template_problem === undefined
      ? []
      : [
          warn(
            `model ${id}`,
            `Its chat template ${template_problem}.`,
            `See: svc model show ${id}`,
          ),
        ],
  );
  const named = await checkNamed('model_templates', 'another chat template', { running, paths });
  return [...problems, ...named];
}

/** The draft models of the configuration, and names of models that lead to none. */
export async function checkDrafts({ running, paths }: DoctorContext): Promise<Check[]> {
  if (running === null) return [];
  return checkNamed('model_drafts', 'a draft model', { running, paths }, ({ id, draft }) => {
    if (draft == null) return [];
    const name = `draft of ${oneLine(id)}`;
    const model = oneLine(draft.model);
    if (draft.problem === null) return [ok(name, `${model} guesses its tokens.`)];
    const detail = `The draft model ${model} does not fit: ${oneLine(draft.problem)}.`;
    return [warn(name, detail, 'Correct model_drafts. See: svc model list')];
  });
}

/** One check per local model of a setting, by `checkOf`, and one for names without a model. */
async function checkNamed(
  setting: 'model_templates' | 'model_drafts',
  what: string,
  { running, paths }: { running: RunningDaemon; paths: Paths },
  checkOf: (model: Results['model.show']) => Check[] = () => [],
): Promise<Check[]> {
  const { config } = running;
  const show = (id: string) =>
    askDaemon(paths, 'model.show', { id }, { timeout_ms: SHOW_MS }).catch(() => null);
  const named = Object.keys(config[setting]).map(async (name) => {
    const shown = await Promise.all([config.aliases[name] ?? name].flat().map(show));
    const models = shown.filter((model) => model?.provider === 'local' && !model.built_in);
    if (models.length > 0) return models.flatMap((model) => (model === null ? [] : checkOf(model)));
    const detail = `${oneLine(name)} is not a local model that can have ${what}.`;
    return [warn(setting, detail, 'See: svc model list')];
  });
  return (await Promise.all(named)).flat();
}
