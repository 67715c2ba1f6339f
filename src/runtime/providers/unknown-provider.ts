import { SvcError } from '../../errors.ts';

export function unknownProvider(id: string, known: readonly string[]): SvcError {
  return new SvcError(
    'provider_unknown',
    `There is no provider ${JSON.stringify(id)}. Known: ${known.join(', ')}.`,
    { param: 'provider', details: { known } },
  );
}
