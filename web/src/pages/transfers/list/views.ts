/** Saved views of the list: a name for a filter, kept in this browser for one user. */

export interface View {
  name: string;
  /** The address of the list with the filter, as `/transfers?state=failed`. */
  address: string;
}

/** Most views of a user, and most characters of a name. */
export const VIEWS_MAX = 30;
export const NAME_MAX = 40;

/** Returns the key of local storage under which the views of a user are. */
export function viewsKey(user: string): string {
  return `penstock-views-${user}`;
}

/** Returns the views that a text holds; what is none, as of another release, is left out. */
export function parseViews(text: string | undefined): View[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter(isView).slice(0, VIEWS_MAX) : [];
  } catch {
    return [];
  }
}

function isView(value: unknown): value is View {
  const { name, address } = (value ?? {}) as Partial<View>;
  return (
    typeof name === "string" &&
    name !== "" &&
    name.length <= NAME_MAX &&
    typeof address === "string" &&
    /^\/transfers($|\?)/.test(address)
  );
}

/** Returns the views with one more, by their names; one of the same name is replaced. */
export function withView(views: readonly View[], view: View): View[] {
  const others = views.filter((one) => one.name !== view.name);
  return [...others, view].sort((a, b) => a.name.localeCompare(b.name)).slice(0, VIEWS_MAX);
}
