import type { OAuthTokens } from '@modelcontextprotocol/client';
import * as v from 'valibot';
import type { LoginStore } from '../config/keys/port.ts';
import { parseForeignJson } from '../json.ts';

/** A message without the token, which would be in that of the schema. */
const token = v.pipe(v.string(), v.regex(/^[\x21-\x7e]+$/, 'a token has a wrong form'));

/** Names of rights, with spaces between them (RFC 6749). */
const scopes = v.pipe(
  v.string(),
  v.regex(/^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/, 'a scope has a wrong form'),
  v.maxLength(4000),
);

/** The refusal of a tool server that wants a login or another scope. */
const challenge = v.object({
  resource_metadata: v.optional(v.pipe(v.string(), v.url(), v.maxLength(2000))),
  /** Of all such answers since the last login of a person with `--scope`. */
  scope: v.optional(scopes),
});
export type Challenge = v.InferOutput<typeof challenge>;

const tokens = v.object({
  issuer: v.string(),
  /** Facts of the authorization server that a refresh and a logout need. Absent: it omits them. */
  metadata: v.optional(
    v.object({
      token_endpoint: v.string(),
      token_endpoint_auth_methods_supported: v.optional(v.array(v.string())),
      revocation_endpoint: v.optional(v.string()),
      revocation_endpoint_auth_methods_supported: v.optional(v.array(v.string())),
    }),
  ),
  client: v.object({
    client_id: v.string(),
    client_secret: v.optional(v.string()),
    token_endpoint_auth_method: v.optional(v.string()),
  }),
  resource: v.optional(v.string()),
  /** The requested scopes. Absent: whatever the authorization server gives. */
  scope: v.optional(scopes),
  access_token: token,
  refresh_token: v.optional(token),
  /** When a tenth of its time is left. Absent: the server does not say. */
  refresh_at: v.optional(v.number()),
});
export type SavedLogin = v.InferOutput<typeof tokens>;

/** `server`: its address. No other gets the tokens. */
const place = v.object({
  server: v.string(),
  /** Of the last login, also after its tokens. */
  issuer: v.optional(v.string()),
  asked: v.optional(v.nullable(v.fallback(challenge, {})), null),
});

/**
 * All that is known about the login at one tool server. The daemon and `svc mcp login` read and
 * write it, so they never judge differently whether a login is needed.
 */
export interface LoginRecord {
  server: string;
  issuer: string | null;
  /** Null: the server has refused no request. */
  asked: Challenge | null;
  /** Null: no one is logged in. */
  login: SavedLogin | null;
}

/** Of another address than the given one nothing counts. */
export async function readRecord(store: LoginStore, server?: string): Promise<LoginRecord> {
  const text = await store.read();
  const value = parseForeignJson(text === null ? null : Buffer.from(text, 'base64url').toString());
  const found = v.safeParse(place, value);
  if (!found.success || (server !== undefined && found.output.server !== server))
    return { server: server ?? '', issuer: null, asked: null, login: null };
  const login = v.safeParse(tokens, value);
  const { issuer = null } = found.output;
  return { ...found.output, issuer, login: login.success ? login.output : null };
}

/** Keeps the record where the keys are, as one text without spaces. */
export async function writeRecord(store: LoginStore, record: LoginRecord): Promise<void> {
  const { login, issuer, ...shared } = record;
  const known = { ...shared, ...(issuer === null ? {} : { issuer }) };
  const all = login === null ? known : { ...known, ...v.parse(tokens, login) };
  await store.write(Buffer.from(JSON.stringify(all)).toString('base64url'));
}

export function withTokens(
  login: Omit<SavedLogin, 'access_token' | 'refresh_at'>,
  { access_token, refresh_token, expires_in }: OAuthTokens,
  now: number,
): SavedLogin {
  const isKnown = expires_in !== undefined && expires_in > 0;
  const refresh_at = isKnown ? now + expires_in * 900 : undefined;
  return { ...login, access_token, refresh_token, refresh_at };
}

/** What of a foreign answer has the form of a challenge. */
export function challengeOf(value: unknown): Challenge {
  const { resource_metadata, scope } = challenge.entries;
  const { resource_metadata: url, scope: named } = value as Record<string, unknown>;
  return {
    ...(v.is(resource_metadata.wrapped, url) ? { resource_metadata: url } : {}),
    ...(v.is(scope.wrapped, named) ? { scope: named } : {}),
  };
}

/** The scopes of all texts, each once. */
export function unionOf(...texts: readonly (string | undefined)[]): string | undefined {
  const all = texts.flatMap((text) => text?.split(' ') ?? []);
  return all.length === 0 ? undefined : [...new Set(all)].join(' ');
}

/** The scopes that are in the first text alone. */
export function scopesBeyond(asked: string, given: string | undefined): readonly string[] {
  const has = new Set(given?.split(' '));
  return asked.split(' ').filter((scope) => !has.has(scope));
}
