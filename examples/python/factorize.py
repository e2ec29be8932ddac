"""Matrix factorization: ratings as products of users' and movies' factors."""

from pathlib import Path

import numpy as np
import proteus

BATCH = 512  # ratings whose steps are computed from the same rows


class Factorize(proteus.App):
    """ratings as products of users' and items' factors"""

    data = proteus.Option(type=Path, required=True, help="ratings: lines of user, item, rating")
    out = proteus.Option(type=Path, help="write the factors there, as .npz")
    rank = proteus.Option(16, minimum=1, help="factors of each user and item")
    rate = proteus.Option(0.03, minimum=0, help="learning rate of the first iteration", steers=True)
    slower = proteus.Option(0.92, minimum=0, maximum=1, steers=True, help="the rate's factor for each iteration")
    decay = proteus.Option(0.035, minimum=0, help="L2 regularization")

    users = proteus.Table(start=proteus.Normal(0.1), mode="put")
    movies = proteus.Table(start=proteus.Normal(0.1))
    rmse = proteus.Metric("root_mean")
    test_rmse = proteus.Metric("root_mean", evaluated=True)

    item_rows = ("users", "movies")
    item = np.float32
    read_only_emits = True
    clocks_per_iteration = 8

    def configure(self, worker):
        self.users.width = self.movies.width = 1 + self.rank  # a bias, and the factors

    def read(self, worker):
        def each(worker, ratings):
            keys = np.stack([ratings["user"], ratings["item"]], axis=1)
            test = (ratings["user"] * np.uint64(31) + ratings["item"]) % np.uint64(10) == 0
            worker.emit(ratings["value"], keys, test=test, totals=np.where(test, 0, ratings["value"])[:, None])

        worker.read_ratings(self.data, each)

    def errors(self, worker, items):
        mean = worker.total(0) / worker.total_items
        u = worker.table("users").rows[items.slots[:, 0]]
        m = worker.table("movies").rows[items.slots[:, 1]]
        return u, m, items.data - (mean + u[:, 0] + m[:, 0] + (u[:, 1:] * m[:, 1:]).sum(axis=1))

    def clock(self, worker, items):
        rate = self.rate * self.slower ** (worker.iteration - 1)
        one = np.ones((BATCH, 1), np.float32)
        order = worker.random(worker.clock).permutation(len(items))
        for begin in range(0, len(items), BATCH):
            part = order[begin:begin + BATCH]
            batch = proteus.Items(items.data[part], items.slots[part])
            u, m, error = self.errors(worker, batch)
            # The steps of all nodes add up on a movie; a user's ratings are all on one node.
            for table, slots, own, other, steps in (("users", batch.slots[:, 0], u, m, 1),
                                                    ("movies", batch.slots[:, 1], m, u, worker.nodes)):
                gradient = error[:, None] * np.hstack([one[:len(part)], other[:, 1:]]) - self.decay * own
                worker.table(table).add(slots, rate / steps * gradient)
            worker.metric("rmse", (error**2).sum(), len(batch))

    def evaluate(self, worker, items):
        worker.metric("test_rmse", (self.errors(worker, items)[2] ** 2).sum(), len(items))

    def finish(self, worker):
        if self.out is not None:
            users, u = worker.scan("users")
            movies, m = worker.scan("movies")
            np.savez(self.out, users=users, user_factors=u, movies=movies, movie_factors=m)


if __name__ == "__main__":
    proteus.main(Factorize)
