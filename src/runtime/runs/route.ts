import { randomInt } from 'node:crypto';
import { sameTarget } from '../../../machines/failover.ts';
import type { Config } from '../../config/config.ts';
import { hasOwnLoad } from '../../config/presets.ts';
import type { ProviderConfig } from '../../config/providers/provider.ts';
import type { RunInput } from '../../contract/contract.ts';
import type { Target } from '../../contract/events.ts';
import { assignAuthor, type RunRequest, shortMessages } from '../../contract/messages/parts.ts';
import { optionsIn } from '../../contract/options.ts';
import { TARGETS_MAX } from '../../contract/run.ts';
import { SvcError } from '../../errors.ts';
import { aliasOf, withoutTag } from '../models/alias.ts';
import { LOCAL } from '../providers/providers.ts';
import { unknownProvider } from '../providers/unknown-provider.ts';

/** The provider and model of a run, and whether the prompt leaves this machine. */
export type Route = Omit<Target, 'resumable'>;

/** The fields of a request that choose its target. */
type TargetChoice = Pick<RunInput, 'provider' | 'model' | 'cloud'>;
/** The same, with one name of a model and no alias. */
type ModelChoice = Omit<TargetChoice, 'model'> & { model?: string | null | undefined };
type Settings = Pick<Config, 'default_provider' | 'default_cloud_provider' | 'model' | 'aliases'> &
  Partial<Pick<Config, 'alias_presets'>>;

/** The models of a provider as it last listed them. Null: unknown. */
export type Listed = (provider: string) => readonly string[] | null;

/**
 * The targets of a run in their order: one for each name of a model. An alias may lead to several
 * names. A target that comes twice counts once.
 *
 * Throws the errors of `chooseRoute` and `checkProvider`, and invalid_request for too many targets.
 */
export function chooseRoutes(
  choice: TargetChoice,
  config: Settings,
  providers: ReadonlyMap<string, ProviderConfig | null>,
  listed?: Listed,
): readonly [Route, ...Route[]] {
  const isListed = (name: string) =>
    [...providers.keys()].some((id) =>
      listed?.(id)?.some((each) => each === name || `${id}/${each}` === name),
    );
  const [first, ...rest] = namesOf(choice.model ?? null, config, isListed);
  const route = (model: string | null) =>
    chooseRoute({ ...choice, model }, config, providers, listed);
  if (rest.length > 0 && choice.provider == null)
    for (const name of [first, ...rest]) checkProvider(name ?? '', config, providers, listed);
  const routes: [Route, ...Route[]] = [route(first)];
  for (const name of rest) {
    const next = route(name);
    if (!routes.some((known) => sameTarget(known, next))) routes.push(next);
  }
  if (routes.length <= TARGETS_MAX) return routes;
  throw new SvcError(
    'invalid_request',
    `The request has ${routes.length} targets; at most ${TARGETS_MAX} are taken.`,
    { param: 'model' },
  );
}

/**
 * A later target is rarely called, so a mistyped provider would be found late. A single name may be
 * a model of the default provider that has a slash. Throws provider_unknown.
 */
function checkProvider(
  name: string,
  { default_provider }: Settings,
  providers: ReadonlyMap<string, ProviderConfig | null>,
  listed: Listed = () => null,
): void {
  const slash = name.indexOf('/');
  const prefix = name.slice(0, slash);
  if (slash <= 0 || providers.has(prefix) || isFile(name)) return;
  if (listed(default_provider)?.includes(name) !== true)
    throw unknownProvider(prefix, [...providers.keys()]);
}

/**
 * The names that a request means. An alias is looked at once. An alias with its own settings has
 * its own name at the local engine. A tag `:latest` is left out unless a model of a provider is
 * called so.
 */
function namesOf(
  model: string | readonly string[] | null,
  { aliases, alias_presets = {} }: Settings,
  isListed: (name: string) => boolean,
): readonly [string | null, ...string[]] {
  const names = typeof model === 'string' ? [model] : (model ?? []);
  const [first = null, ...rest] = names.flatMap((name) => {
    const alias = aliasOf(name, aliases);
    if (alias !== null && hasOwnLoad(alias_presets[alias])) return `${LOCAL}/${alias}`;
    if (alias !== null) return aliases[alias] ?? name;
    const short = withoutTag(name);
    return short === name || isListed(name) ? name : short;
  });
  return [first, ...rest];
}

/**
 * Chooses provider and model of one target.
 *
 * 1. `provider` names the provider. With `cloud`, it must be a cloud one.
 * 2. `model` is `provider/name`, or a name at the chosen provider. Without a provider, a path
 *    or a .gguf file belongs to the local engine.
 * 3. `cloud` alone means the default cloud provider, or the only one.
 * 4. Without any of them, the default provider of the configuration answers. A provider without a
 *    default model answers with the only model that it lists.
 * 5. The default provider may not list a name without a provider. Then the name goes to the only
 *    other provider on this machine that lists it. No name alone sends a prompt to the cloud.
 * 6. The id of a provider alone means its own model, unless the default provider lists that name.
 *
 * Throws usage, provider_unknown, cloud_unconfigured, model_unknown.
 */
function chooseRoute(
  input: ModelChoice,
  config: Settings,
  providers: ReadonlyMap<string, ProviderConfig | null>,
  listed: Listed = () => null,
): Route {
  const named = splitModel(input, providers, listed(config.default_provider) ?? []);
  const provider =
    input.provider ??
    named.provider ??
    (input.cloud === true
      ? cloudProvider(config, providers)
      : findProviderOf(named.name, config, providers, listed));
  const settings = providers.get(provider);
  if (settings === undefined) throw unknownProvider(provider, [...providers.keys()]);
  if (named.provider !== null && named.provider !== provider) {
    throw new SvcError(
      'usage',
      `The model ${input.model} belongs to ${named.provider}, not to ${provider}.`,
      { param: 'model' },
    );
  }
  const cloud = settings?.kind === 'cloud';
  if (input.cloud === true && !cloud)
    throw new SvcError('usage', `${provider} is a local provider, but --cloud needs a cloud one.`, {
      param: 'cloud',
    });
  const usual = provider === LOCAL ? config.model : (settings?.model ?? null);
  const model = named.name ?? usual ?? onlyModel(provider, listed(provider) ?? []);
  return { provider, model, cloud };
}

/** Throws model_unknown unless there is exactly one. */
function onlyModel(provider: string, models: readonly string[]): string {
  const [only] = models;
  if (only !== undefined && models.length === 1) return only;
  const some = models.slice(0, NAMES_SHOWN);
  const more = models.length > some.length ? ', …' : '';
  const known = only === undefined ? '' : ` It has ${some.join(', ')}${more}.`;
  throw new SvcError(
    'model_unknown',
    `The request names no model, and ${provider} has no default model.${known}`,
    {
      param: 'model',
      hint:
        only === undefined
          ? 'Name one with --model, or see: svc model list'
          : `For example: svc run "…" --model ${provider}/${only}`,
    },
  );
}

const NAMES_SHOWN = 5;

/** The provider of a name: see rule 5. Throws model_unknown when several list it. */
function findProviderOf(
  name: string | null,
  { default_provider }: Pick<Config, 'default_provider'>,
  providers: ReadonlyMap<string, ProviderConfig | null>,
  listed: Listed,
): string {
  const has = (id: string) => name !== null && listed(id)?.includes(name) === true;
  if (listed(default_provider) === null || has(default_provider)) return default_provider;
  const others = [...providers.keys()].filter((id) => id !== default_provider && has(id));
  const here = others.filter((id) => providers.get(id)?.kind !== 'cloud');
  const [only, second] = here;
  if (only !== undefined && second === undefined) return only;
  // The list of the default provider may be old, so its own answer decides.
  if (others.length === 0) return default_provider;
  throw new SvcError(
    'model_unknown',
    only === undefined
      ? `Only cloud providers have the model ${name}: ${others.join(', ')}.`
      : `Several providers have the model ${name}: ${here.join(', ')}.`,
    {
      param: 'model',
      hint:
        `Name the provider too, such as ${others[0]}/${name}, or set an alias in the ` +
        'configuration.',
    },
  );
}

function splitModel(
  { model, provider }: ModelChoice,
  providers: ReadonlyMap<string, ProviderConfig | null>,
  usual: readonly string[],
): { provider: string | null; name: string | null } {
  if (model == null || model === '') return { provider: null, name: null };
  if (provider == null && providers.has(model) && !usual.includes(model))
    return { provider: model, name: null };
  const slash = model.indexOf('/');
  const prefix = slash > 0 ? model.slice(0, slash) : '';
  const isOfProvider = providers.has(prefix);
  const name = isOfProvider || (prefix !== '' && provider == null) ? model.slice(slash + 1) : model;
  if (name.trim() === '') throw blankModel(model, prefix);
  if (isOfProvider) return { provider: prefix, name };
  return { provider: provider == null && isFile(model) ? LOCAL : null, name: model };
}

/** A mistake, such as an empty variable in a script, must not select the default model. */
function blankModel(model: string, provider: string): SvcError {
  return new SvcError('model_unknown', `There is no model ${JSON.stringify(model)}.`, {
    param: 'model',
    hint:
      provider === ''
        ? 'Leave the model out for the default one, or see: svc model list'
        : `Write ${provider} alone for its default model, or a model of it from: svc model list`,
  });
}

/**
 * Whether a name in the request is the path of a file. An alias is not a path, whatever it leads
 * to: the user of the daemon chose it. A name alone may end in `.gguf`, if the list has that model.
 */
export function namesFile(
  { model, ...rest }: TargetChoice,
  config: Settings,
  providers: ReadonlyMap<string, ProviderConfig | null>,
  listed: Listed,
): boolean {
  return [model ?? []].flat().some((name) => {
    if (aliasOf(name, config.aliases) !== null) return false;
    const short = name.replace(/^(local\/)+/, '');
    const isOfOther = [rest.provider ?? '', name.split('/')[0] ?? ''].some(
      (id) => id !== LOCAL && providers.has(id),
    );
    if (isOfOther || !(isFile(short) || PATH.test(short))) return false;
    const stem = short.replace(/\.gguf$/i, '');
    return PATH.test(stem) || listed(LOCAL)?.includes(stem) !== true;
  });
}

/** A root, a home, a drive, or a folder above or here. No model of a list is called so. */
const PATH = /^[/~\\]|^[A-Za-z]:[\\/]|(^|[/\\])\.{1,2}([/\\]|$)|\\/;

function isFile(model: string): boolean {
  return (
    model.startsWith('/') ||
    model.startsWith('../') ||
    /^[A-Za-z]:[\\/]/.test(model) ||
    model.endsWith('.gguf')
  );
}

function cloudProvider(
  config: Pick<Config, 'default_cloud_provider'>,
  providers: ReadonlyMap<string, ProviderConfig | null>,
): string {
  if (config.default_cloud_provider !== null) return config.default_cloud_provider;
  const all = [...providers].filter(([, settings]) => settings?.kind === 'cloud').map(([id]) => id);
  const [only] = all;
  if (only !== undefined && all.length === 1) return only;
  if (only === undefined) throw new SvcError('cloud_unconfigured', undefined, { param: 'cloud' });
  throw new SvcError(
    'cloud_unconfigured',
    `There are several cloud providers (${all.join(', ')}) and none is the default.`,
    {
      param: 'cloud',
      hint:
        'Name one with --provider, or choose one: svc config set default_cloud_provider ' +
        `${all[0]}`,
      details: { known: all },
    },
  );
}

/**
 * The request to the provider of the route. `returns`: the forms of the opaque data that a client
 * sends back for it.
 */
export function requestOf(
  input: RunInput,
  route: Route,
  returns: readonly string[] = [],
): RunRequest {
  const messages = input.messages ?? shortMessages(input.prompt ?? '', input.system ?? null);
  return {
    ...route,
    messages: assignAuthor(messages, route, returns),
    ...optionsIn(input),
    max_tokens: input.max_tokens ?? null,
    temperature: input.temperature ?? null,
    seed: input.seed ?? randomInt(2 ** 32),
    seed_asked: input.seed != null,
  };
}
