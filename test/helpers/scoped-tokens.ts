import type { Home } from './svc.ts';

/** The token of a home, and one for each scope: `own` and `other` may run. */
export async function scopedTokens({ svc }: Pick<Home, 'svc'>) {
  const made = async (name: string, scope: string) =>
    (await svc(['token', 'create', '--name', name, '--scope', scope])).stdout.trim();
  return {
    read: await made('reader', 'read'),
    own: await made('cat', 'run'),
    other: await made('dog', 'run'),
    approve: await made('boss', 'approve'),
    admin: await made('ops', 'admin'),
    home: (await svc(['token'])).stdout.trim(),
  };
}
