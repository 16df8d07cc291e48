/** Errors of the API (RFC 9457), and the loss of the daemon. */

import type { components } from "./schema";

export type ProblemDocument = components["schemas"]["ProblemDocument"];

/** The daemon answered with a problem. */
export class ProblemError extends Error {
  readonly problem: ProblemDocument;

  constructor(problem: ProblemDocument) {
    super(problem.detail || problem.title);
    this.name = "ProblemError";
    this.problem = problem;
  }

  get status(): number {
    return this.problem.status;
  }

  get code(): string {
    return this.problem.code;
  }
}

/** The daemon did not answer at all. */
export class ContactError extends Error {
  constructor() {
    super("The daemon does not answer.");
    this.name = "ContactError";
  }
}

function isProblem(body: unknown): body is ProblemDocument {
  return (
    typeof body === "object" &&
    body !== null &&
    typeof (body as ProblemDocument).code === "string" &&
    typeof (body as ProblemDocument).title === "string"
  );
}

/** Returns the error of an answer that is none of success; a proxy's has no problem in it. */
export function errorOf(response: Response, body: unknown): ProblemError {
  if (isProblem(body)) {
    return new ProblemError({ ...body, status: body.status || response.status });
  }
  return new ProblemError({
    type: "about:blank",
    code: "http",
    title: `The answer has HTTP status ${response.status}`,
    detail: response.statusText || `HTTP status ${response.status}`,
    cause: "",
    hint: "A proxy between this browser and the daemon may have answered: ask its operator.",
    status: response.status,
    exit: "temporary",
    retryable: response.status >= 500,
    request_id: response.headers.get("request-id") ?? undefined,
  });
}

/** Returns the problem of any error, so that one box can show all of them. */
export function problemOf(error: unknown): ProblemDocument {
  if (error instanceof ProblemError) {
    return error.problem;
  }
  const lost = error instanceof ContactError;
  return {
    type: "about:blank",
    code: lost ? "connection" : "page",
    title: lost ? "No contact with the daemon" : "The page met an error of its own",
    detail: error instanceof Error ? error.message : String(error),
    cause: "",
    hint: lost ? "Check that the daemon runs, and the network to it." : "Load the page again.",
    status: 0,
    exit: "temporary",
    retryable: lost,
  };
}

/** Returns whether an error says that the caller is not logged in. */
export function isLoggedOut(error: unknown): boolean {
  return error instanceof ProblemError && error.status === 401;
}
