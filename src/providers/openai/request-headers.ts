import type { ProviderConfig } from '../../config/provider.ts';

/** The settings of a provider whose address is known. */
export type AddressedConfig = ProviderConfig & { base_url: string };

/** The headers of a request: those of the settings, then the given ones, then the key. */
export function keyHeaders(
  { headers, options }: Pick<ProviderConfig, 'headers' | 'options'>,
  key: string | null,
  given: ConstructorParameters<typeof Headers>[0] = {},
): Headers {
  const all = new Headers(headers);
  new Headers(given).forEach((value, name) => {
    all.set(name, value);
  });
  if (options.organization !== undefined) all.set('openai-organization', options.organization);
  if (options.project !== undefined) all.set('openai-project', options.project);
  if (key === null) return all;
  if (options.key_header === undefined) all.set('authorization', `Bearer ${key}`);
  else all.set(options.key_header, key);
  return all;
}
