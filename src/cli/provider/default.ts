import type { Paths } from '../../home/paths.ts';
import { oneLine } from '../../logs/plain.ts';
import { askHome } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import type { ProviderView } from '../terminal/offline/configured.ts';
import { note, print, printJson } from '../terminal/print/output.ts';

/** Prints the provider of runs that name none, or sets it. Needs no daemon. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const [id] = args;
  const provider = id === undefined ? await present(paths) : await use(paths, id);
  if (json) printJson(provider);
  else if (provider === null)
    note('The default provider is not configured. Choose another: svc provider default <id>');
  else if (id === undefined) print(oneLine(provider.id));
  else {
    print(oneLine(`${provider.id} answers runs that name no provider.`));
    if (provider.kind === 'cloud')
      note('Their prompts leave this machine. To undo this: svc provider default local');
  }
  return 0;
}

async function present(paths: Paths): Promise<ProviderView | null> {
  const { answer } = await askHome(paths, 'provider.list');
  return answer.providers.find((provider) => provider.default) ?? null;
}

async function use(paths: Paths, id: string): Promise<ProviderView> {
  return (await askHome(paths, 'provider.use', { id })).answer;
}
