import type { ModelRecord } from '../../providers/port.ts';
import { sendJson } from './reply.ts';
import type { Context } from './route.ts';

/** Lists providers and their models. */
export function listProviders({ res, runtime }: Context): void {
  sendJson(res, 200, { providers: runtime.listProviders() });
}

export async function listModels({ res, runtime }: Context): Promise<void> {
  sendJson(res, 200, { object: 'list', data: (await runtime.listModels()).map(openaiModel) });
}

/** A model in the OpenAI form, with our fields added. `created` is unknown: 0. */
function openaiModel({ path: _, ...model }: ModelRecord): Record<string, unknown> {
  return { ...model, object: 'model', created: 0, owned_by: model.provider };
}
