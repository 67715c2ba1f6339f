import type { ProviderConfig } from '../../config/providers/provider.ts';

/** The settings of a provider whose address is known. */
export type AddressedConfig = ProviderConfig & { base_url: string };

/** The headers that the settings of a provider say. Names are in lower case. */
export function settingHeaders({
  headers,
  options,
}: Pick<ProviderConfig, 'headers' | 'options'>): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) all[name.toLowerCase()] = value;
  if (options.organization !== undefined) all['openai-organization'] = options.organization;
  if (options.project !== undefined) all['openai-project'] = options.project;
  return all;
}

/** The header that has the key. */
export function keyHeader(
  { options }: Pick<ProviderConfig, 'options'>,
  key: string | null,
): Record<string, string> {
  if (key === null) return {};
  return options.key_header === undefined
    ? { authorization: `Bearer ${key}` }
    : { [options.key_header.toLowerCase()]: key };
}

export const JSON_TYPE = { 'content-type': 'application/json' };
