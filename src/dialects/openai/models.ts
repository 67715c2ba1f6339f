import type { ModelRecord } from '../../contract/model-record.ts';
import { SvcError } from '../../errors.ts';
import { sendJson } from '../../transport/http/reply.ts';
import type { Context } from '../../transport/http/route.ts';

/**
 * Models in the form of OpenAI, with the fields of svc and those that clients of Anthropic show. An
 * alias is a model, too.
 */

export async function listModels({ req, res, runtime }: Context): Promise<void> {
  const data = (await listAllModels(runtime)).map((model) => formFor(req, model));
  sendJson(res, 200, {
    object: 'list',
    data,
    has_more: false,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  });
}

/** An id has a slash. Clients send it plain, or as %2F. */
export async function showModel({ req, res, runtime }: Context): Promise<void> {
  const { id, provider, '*': rest } = req.params as Record<string, string | undefined>;
  const wanted = id ?? `${provider}/${rest}`;
  const models = await listAllModels(runtime);
  const named = models.filter(({ name }) => name === wanted);
  const found =
    models.find((model) => model.id === wanted) ?? (named.length === 1 ? named[0] : undefined);
  if (found === undefined)
    throw new SvcError('model_unknown', `There is no model ${JSON.stringify(wanted)}.`, {
      param: 'model',
      hint: 'GET /v1/models lists them.',
    });
  sendJson(res, 200, formFor(req, found));
}

type Model = { id: string; name: string } & Record<string, unknown>;

/** `created` is unknown: 0, which is 1970. */
async function listAllModels(runtime: Context['runtime']): Promise<Model[]> {
  const models = (await runtime.models.list()).map(describeModel);
  const aliases = Object.entries(runtime.models.aliases()).map(([alias, target]) => {
    const [first = '', ...others] = [target].flat();
    return {
      id: alias,
      name: alias,
      ...form(alias),
      owned_by: first.split('/')[0] ?? '',
      alias_of: first,
      ...(others.length === 0 ? {} : { alias_targets: [first, ...others] }),
    };
  });
  return [...models, ...aliases];
}

/**
 * A client of Anthropic says its version. There `capabilities` is an object of all that Anthropic
 * names, or unknown.
 */
function formFor({ headers }: Context['req'], model: Model): Model {
  if (headers['anthropic-version'] === undefined) return model;
  return {
    ...model,
    capabilities: null,
    lifecycle: 'active',
    line: null,
    max_input_tokens: model.context_length ?? null,
    max_tokens: null,
    deprecated_at: null,
    retires_at: null,
  };
}

function describeModel({ path: _, ...model }: ModelRecord): Model {
  return { ...model, ...form(model.name), owned_by: model.provider };
}

/** What both APIs say of any model. */
function form(display_name: string): Record<string, unknown> {
  return {
    object: 'model',
    created: 0,
    type: 'model',
    display_name,
    created_at: new Date(0).toISOString(),
  };
}
