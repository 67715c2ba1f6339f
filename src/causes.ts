/** An error and its causes, outermost first. */
export function causesOf(thrown: unknown): NodeJS.ErrnoException[] {
  const found: NodeJS.ErrnoException[] = [];
  for (let error = thrown; error instanceof Error && found.length < DEPTH_MAX; error = error.cause)
    found.push(error);
  return found;
}

const DEPTH_MAX = 10;

/**
 * The first error code of the system or of undici in the chain. It is a constant, never foreign
 * text.
 */
export function systemCode(thrown: unknown): string | null {
  const codes = causesOf(thrown).map(({ code }) => code);
  return codes.find((code) => typeof code === 'string' && /^[A-Z][A-Z0-9_]+$/.test(code)) ?? null;
}

/** Whether the code of a TLS connection is about the certificate of the other side. */
export function isCertificateCode(code: string | null): boolean {
  return code !== null && /CERT|_SIGNED|^ERR_TLS|VERIFY/.test(code);
}
