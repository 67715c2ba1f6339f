import {
  discoverOAuthServerInfo,
  IssuerMismatchError,
  type OAuthDiscoveryState,
  type OAuthServerInfo,
} from '@modelcontextprotocol/client';
import type { Fetch } from './bounded-fetch.ts';
import type { Challenge } from './login-record.ts';

/**
 * Finds who signs people in. A server that has refused nothing may still offer a login in its
 * metadata. Null: there is no login.
 */
export async function discover(
  server: string,
  asked: Challenge | null,
  fetchFn: Fetch,
): Promise<OAuthDiscoveryState | null> {
  const place = asked?.resource_metadata;
  const found = await discoverOAuthServerInfo(server, {
    fetchFn,
    // The issuer is checked below.
    skipIssuerMetadataValidation: true,
    ...(place === undefined ? {} : { resourceMetadataUrl: new URL(place) }),
  });
  if (asked === null && found.resourceMetadata?.authorization_servers?.length === undefined)
    return null;
  checkIssuer(found);
  return place === undefined ? found : { ...found, resourceMetadataUrl: place };
}

/**
 * Throws if the metadata is not of the requested issuer (RFC 8414 §3.3).
 *
 * In the protocol of 2025-03-26 a tool server names no issuer. The metadata is at the root of the
 * same host, and may name another path there. No other host gains anything by that.
 */
function checkIssuer(found: OAuthServerInfo): void {
  const { authorizationServerUrl: url, authorizationServerMetadata, resourceMetadata } = found;
  if (authorizationServerMetadata === undefined) return;
  const { issuer } = authorizationServerMetadata;
  const isSame = issuer === url || `${issuer}/` === url;
  const isOwn = resourceMetadata === undefined && URL.canParse(issuer);
  if (isSame || (isOwn && new URL(issuer).origin === new URL(url).origin)) return;
  throw new IssuerMismatchError('metadata', url, issuer);
}

export function issuerOf({
  authorizationServerMetadata,
  authorizationServerUrl,
}: OAuthDiscoveryState) {
  return authorizationServerMetadata?.issuer ?? authorizationServerUrl;
}
