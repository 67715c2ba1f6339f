// @ts-check

/** What the daemon refused, or null as status when it could not be asked. */
export class ApiError extends Error {
  /**
   * @param {number | null} status
   * @param {{ code?: string, message?: string, hint?: string | null }} body
   */
  constructor(
    status,
    { code = 'unreachable', message = 'The daemon does not answer.', hint = null },
  ) {
    super(hint === null || hint === '' ? message : `${message} ${hint}`);
    this.status = status;
    this.code = code;
  }
}
