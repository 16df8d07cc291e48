/** Counts the clicks of a person, so that a flow stays as short as it was promised. */

import assert from "node:assert/strict";

export class Clicks {
  constructor(page) {
    this.page = page;
    this.count = 0;
  }

  /** Clicks on what a locator finds; waits until it is there. */
  async on(locator) {
    this.count += 1;
    await locator.click();
  }

  /** A click on a link of the menu, in the rail or the bar below. */
  async menu(name) {
    await this.on(this.page.getByRole("link", { name, exact: false }).first());
  }

  /** Fails if it took more clicks than `most`. */
  atMost(most, flow) {
    assert.ok(this.count <= most, `${flow} took ${this.count} clicks; ${most} were promised`);
    console.log(`${flow}: ${this.count} clicks`);
  }
}
