/**
 * The client of the API. A browser adds the cookie of the session, and `Sec-Fetch-Site`, by which
 * the daemon knows that a request comes from its own page: nothing else is needed against forgery.
 */

import createClient from "openapi-fetch";
import { at } from "../base";
import { ContactError, errorOf } from "./problem";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

export const api = createClient<paths>({ baseUrl: at("/") });

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Returns the body of an answer; throws `ProblemError`, or `ContactError` if there is none. */
export async function unwrap<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (error) {
    // `fetch` rejects with a TypeError alone, whatever has broken.
    throw error instanceof TypeError ? new ContactError() : error;
  }
  if (!answer.response.ok) {
    throw errorOf(answer.response, answer.error);
  }
  return answer.data as T;
}

/** A name of an enumeration, or a word of a later release. */
export type Open<T extends string> = T | (string & {});
