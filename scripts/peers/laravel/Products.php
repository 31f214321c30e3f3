<?php

namespace App\Http\Controllers;

use Illuminate\Contracts\View\View;
use Illuminate\Database\Query\Builder;
use Illuminate\Support\Facades\DB;

/** A page with 20 rows of a table, at once or after 10 ms in the database. */
final class Products
{
    public function quick(): View
    {
        return $this->page(DB::table('products'));
    }

    public function slow(): View
    {
        return $this->page(DB::table(DB::raw('(SELECT SLEEP(0.01)) AS pause, products')));
    }

    private function page(Builder $table): View
    {
        $products = $table->where('price', '>', 100)->orderBy('id')->limit(20)->get();

        // The helper asks the framework's current application, after the wait for the database.
        return view('products', ['products' => $products, 'visitor' => (int) request()->query('visitor')]);
    }
}
