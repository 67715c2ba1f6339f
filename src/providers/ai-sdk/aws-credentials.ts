import { asRecord } from '../../json.ts';
import { unauthorised } from '../keys/key-file.ts';

/**
 * Credentials of AWS for one request: those of the variables, which the package reads itself, or
 * of a profile. A profile with a static key is read; one that logs in elsewhere is not. Throws
 * provider_unauthorised.
 */
export async function awsCredentials(
  { profile }: Readonly<Record<string, string>>,
  env: NodeJS.ProcessEnv = process.env,
): Promise<object> {
  if (profile === undefined && (env.AWS_BEARER_TOKEN_BEDROCK || env.AWS_ACCESS_KEY_ID)) return {};
  const name = profile ?? (env.AWS_PROFILE || 'default');
  const { loadSharedConfigFiles } = await import('@smithy/core/config');
  // The user may change the files at any time.
  const { configFile, credentialsFile } = await loadSharedConfigFiles({ ignoreCache: true });
  const found = { ...asRecord(configFile[name]), ...asRecord(credentialsFile[name]) };
  const { aws_access_key_id, aws_secret_access_key, aws_session_token } = found;
  if (typeof aws_access_key_id !== 'string' || typeof aws_secret_access_key !== 'string')
    throw unauthorised(
      'There are no AWS credentials: no key, no AWS_ACCESS_KEY_ID in the daemon, and no key ' +
        `in the profile ${JSON.stringify(name)}.`,
    );
  return {
    accessKeyId: aws_access_key_id,
    secretAccessKey: aws_secret_access_key,
    ...(typeof aws_session_token === 'string' ? { sessionToken: aws_session_token } : {}),
  };
}
